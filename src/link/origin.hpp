// Where the weights of a model, or of its assistant, come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"

namespace lapidary::link {

// The SHA-256 of config.json and the safetensors files of a folder, by name.
using FileHashes = std::map<std::string, std::string>;

struct Origin {
  std::string folder;                                // of the checkpoint; of a gem, the one it was cut from
  std::string model_type;
  std::int32_t max_positions = 0;                    // tokens that the model can see
  std::vector<std::span<const std::byte>> mappings;  // of the files; each begins on a page
  std::function<FileHashes()> hashes;                // reads all of the files; large ones take a second
  std::function<std::string()> fingerprint;          // of the checkpoint: what saved sessions belong to
  std::shared_ptr<const void> files;                 // keeps them mapped

  static Origin of(std::shared_ptr<const Checkpoint> checkpoint);
};

}  // namespace lapidary::link
