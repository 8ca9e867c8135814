// Any bytes as a safetensors file: an Error, or tensors that fill the data without sharing a byte.
#include <algorithm>
#include <cstdlib>

#include "checkpoint/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  try {
    const auto tensors = lapidary::parse_safetensors(file, "fuzz");
    const auto out_of_order = std::ranges::adjacent_find(tensors, std::ranges::greater_equal{}, &lapidary::NamedTensor::name);
    if (out_of_order != tensors.end()) std::abort();
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : tensors) {
      if (tensor.bytes.data() < file.data() || tensor.bytes.data() + tensor.bytes.size() > file.data() + size) std::abort();
      bytes += tensor.bytes.size();
    }
    if (bytes + 8 > size) std::abort();
  } catch (const lapidary::Error&) {
  }
  return 0;
}
