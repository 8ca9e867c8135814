// Any bytes as model.safetensors.index.json: an Error, or file names that stay inside the folder.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lapidary::ShardIndex index =
        lapidary::parse_shard_index(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    for (const std::string& file : index.files) {
      if (file.find('/') != file.npos || file.find("..") != file.npos || file.find('\0') != file.npos) std::abort();
    }
    for (const auto& [name, file] : index.tensors) {
      if (file >= index.files.size()) std::abort();
    }
  } catch (const lapidary::Error&) {
  }
  return 0;
}
