#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>

#include "checkpoint/json.hpp"
#include "checkpoint/mapped_file.hpp"

namespace lapidary {

namespace {

namespace fs = std::filesystem;

}  // namespace

struct Checkpoint::Files {
  std::string folder;
  Config config;
  std::list<MappedFile> maps;
  std::vector<NamedTensor> tensors;  // into maps; sorted by name

  void add(const std::string& path) {
    auto more = parse_safetensors(maps.emplace_back(path).bytes(), path);
    std::ranges::move(more, std::back_inserter(tensors));
  }

  void add_shards(const std::string& index_path) {
    const ShardIndex index = parse_shard_index(read_text_file(index_path), index_path);
    std::vector<std::size_t> shard_ends;
    for (const std::string& name : index.files) {
      add(folder + "/" + name);
      shard_ends.push_back(tensors.size());
    }
    // Within a shard the tensors are still in the order of their names.
    for (const auto& [name, shard] : index.tensors) {
      const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(shard == 0 ? 0 : shard_ends[shard - 1]);
      const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(shard_ends[shard]);
      if (!std::ranges::binary_search(begin, end, name, {}, &NamedTensor::name)) {
        fail(ErrorKind::missing_tensor, folder + "/" + index.files[shard],
             "tensor " + printable(name) + ", expected in this file by the index, got nothing");
      }
    }
    std::ranges::sort(tensors, {}, &NamedTensor::name);
    const auto twin = std::ranges::adjacent_find(tensors, {}, &NamedTensor::name);
    if (twin != tensors.end()) {
      fail(ErrorKind::duplicate_name, index_path,
           "tensor " + printable(twin->name) + ", expected in one file, got it in two");
    }
  }
};

Checkpoint::Checkpoint() : files_(std::make_unique<Files>()) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  Files& files = *checkpoint.files_;
  files.folder = folder;
  const std::string config_path = folder + "/config.json";
  files.config = parse_config(read_text_file(config_path), config_path);

  const std::string single_path = folder + "/model.safetensors";
  const std::string index_path = folder + "/model.safetensors.index.json";
  std::error_code ignored;
  if (fs::exists(single_path, ignored)) {
    files.add(single_path);
  } else if (fs::exists(index_path, ignored)) {
    files.add_shards(index_path);
  } else {
    fail(ErrorKind::io, folder, "weights, expected model.safetensors or model.safetensors.index.json, got neither");
  }
  return checkpoint;
}

const std::string& Checkpoint::folder() const { return files_->folder; }
const Config& Checkpoint::config() const { return files_->config; }
const std::vector<NamedTensor>& Checkpoint::tensors() const { return files_->tensors; }

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto& tensors = files_->tensors;
  const auto found = std::ranges::lower_bound(tensors, name, std::less<std::string_view>{}, &NamedTensor::name);
  return found != tensors.end() && found->name == name ? &found->tensor : nullptr;
}

std::size_t Checkpoint::mapped_bytes() const {
  std::size_t bytes = 0;
  for (const MappedFile& map : files_->maps) bytes += map.bytes().size();
  return bytes;
}

std::vector<std::span<const std::byte>> Checkpoint::mappings() const {
  std::vector<std::span<const std::byte>> all;
  for (const MappedFile& map : files_->maps) all.push_back(map.bytes());
  return all;
}

std::string read_text_file(const std::string& path, std::size_t limit_bytes) {
  const std::uintmax_t size_bytes = size_of_regular_file(path);
  if (size_bytes > limit_bytes) {
    fail(ErrorKind::io, path,
         "expected at most " + std::to_string(limit_bytes) + " bytes, got " + std::to_string(size_bytes));
  }
  std::string text(static_cast<std::size_t>(size_bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) fail(ErrorKind::io, path, std::string("cannot be read: ") + std::strerror(errno));
  return text;
}

}  // namespace lapidary
