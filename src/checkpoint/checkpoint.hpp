// A checkpoint folder: config.json and the mapped safetensors files, one or many.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"
#include "checkpoint/safetensors.hpp"

namespace lapidary {

// `model.safetensors.index.json`: which file holds which tensor.
struct ShardIndex {
  std::vector<std::string> files;                         // plain names beside the index, unique, sorted
  std::vector<std::pair<std::string, std::size_t>> tensors;  // tensor name, position in `files`; sorted by name
};
ShardIndex parse_shard_index(std::string_view json, std::string_view where);

class Checkpoint {
 public:
  // Opens `folder`/config.json and model.safetensors, or the shards its index names. Maps, copies nothing.
  static Checkpoint open(const std::string& folder);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& folder() const;
  const Config& config() const;
  const Tensor* find(std::string_view name) const;  // nullptr when absent
  const std::vector<NamedTensor>& tensors() const;  // sorted by name
  std::size_t mapped_bytes() const;                 // of all files
  std::vector<std::span<const std::byte>> mappings() const;  // of the files; each begins on a page

 private:
  struct Files;
  Checkpoint();
  std::unique_ptr<Files> files_;
};

// The bytes of a small text file (configs, indexes, ids); refuses more than `limit_bytes`.
std::string read_text_file(const std::string& path, std::size_t limit_bytes = 64u << 20);

}  // namespace lapidary
