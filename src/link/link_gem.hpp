// Linking for a program that was cut for one checkpoint: everything was checked when it was cut.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "link/link.hpp"
#include "link/manifest.hpp"

namespace lapidary::link {

// The bytes that a manifest speaks of.
struct GemBytes {
  std::vector<std::span<const std::byte>> mappings;  // the payload, then Manifest::files
  std::span<const float> constants;                  // of all vectors, in the order of the weights
  std::span<const std::int32_t> orders;              // of all ids, likewise
  std::span<const std::byte> prepared;
  std::shared_ptr<const void> keeper;                // keeps them mapped
};

// With those of its drafters that are wanted.
Program link(const Manifest& manifest, const GemBytes& bytes, Drafters wanted, const Options& options);

}  // namespace lapidary::link
