// model.safetensors.index.json: {"weight_map": {tensor name: file name, ...}}
#include <algorithm>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/json.hpp"

namespace lapidary {

namespace {

// A file beside the index, never one elsewhere.
bool is_plain_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".safetensors";
  constexpr std::string_view kForbidden("/\\\0", 3);
  return name.size() > kSuffix.size() && name.size() <= 255 && name.ends_with(kSuffix) &&
         name.find_first_of(kForbidden) == name.npos && name.find("..") == name.npos;
}

}  // namespace

ShardIndex parse_shard_index(std::string_view json, std::string_view where) {
  const JsonDocument document(json, where);
  const JsonObject map = document.root().object("weight_map");

  ShardIndex index;
  std::vector<std::pair<std::string_view, std::string_view>> entries;  // tensor, file
  for (const auto& field : map.fields()) {
    std::string_view file;
    if (field.value.get(file)) map.reject(ErrorKind::wrong_type, field.key, "a file name", describe(field.value));
    if (!is_plain_name(file)) {
      map.reject(ErrorKind::bad_value, field.key, "the plain name of a .safetensors file", describe(field.value));
    }
    entries.emplace_back(field.key, file);
    index.files.emplace_back(file);
  }
  if (entries.empty()) document.root().reject(ErrorKind::bad_value, "weight_map", "at least one tensor", "none");

  std::ranges::sort(index.files);
  index.files.erase(std::ranges::unique(index.files).begin(), index.files.end());
  std::ranges::sort(entries);
  for (const auto& [tensor, file] : entries) {
    if (!index.tensors.empty() && index.tensors.back().first == tensor) {
      map.reject(ErrorKind::duplicate_name, tensor, "the tensor once", "it twice");
    }
    const auto place = std::ranges::lower_bound(index.files, file, std::less<std::string_view>{});
    index.tensors.emplace_back(tensor, static_cast<std::size_t>(place - index.files.begin()));
  }
  return index;
}

}  // namespace lapidary
