// What is known of a checkpoint once a program is cut for it: `lapidary cut` writes it, as constants of that program. The payload is
// what the program carries or has beside it; offsets are bytes in it, or in a file of the checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "graph/storage.hpp"
#include "link/numeric.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

inline constexpr std::uint64_t kNowhere = UINT64_MAX;

struct PlacedMatrix {
  graph::Storage storage{};
  std::uint8_t file = 0;  // 0 = the payload, else of Manifest::files the one before
  std::uint64_t values = kNowhere, scales = kNowhere, biases = kNowhere;
  std::uint64_t row_bytes = 0, expert_bytes = 0, scale_row_bytes = 0, scale_expert_bytes = 0;
  Clip clip{};
};

struct PlacedBlock {
  std::uint64_t offset = 0, bytes = 0, checksum = 0;
};

// A file of the checkpoint that is used where it lies.
struct PlacedFile {
  std::string_view path{};
  std::uint64_t bytes = 0, checksum = 0;  // of samples
};

struct CutHash {
  std::string_view file{}, sha256{};
};
struct CutOrigin {
  std::string_view folder{}, model_type{};
  std::int32_t max_positions = 0;
  std::string_view fingerprint{};
  std::span<const CutHash> hashes{};
};

// What a flag is unless the command line, the environment or a file says otherwise.
struct CutDefault {
  std::string_view flag{}, value{};
};

struct Manifest {
  std::string_view version{}, compiler{}, date{};  // of lapidary; what compiled this; when
  const graph::Graph* graph = nullptr;
  CutOrigin target{};
  const CutOrigin *assistant = nullptr, *dflash = nullptr;  // null: it was cut without
  std::span<const CutDefault> defaults{};
  std::span<const PlacedMatrix> matrices{};  // in the order of the weights
  std::span<const PlacedFile> files{};
  std::string_view payload_path{};            // empty = this program; relative = beside it
  std::uint64_t payload_bytes = 0, payload_id = 0;
  PlacedBlock tables{}, vocabulary{}, call_vocabulary{};  // the last may be empty
  std::uint64_t vocabulary_bytes = 0;         // the most that one takes
  std::string_view prepared_kind{};           // of weights, by the backend
  PlacedBlock prepared{};                     // its checksum is not looked at

  // Of the model and its drafters.
  std::vector<const CutOrigin*> origins() const {
    std::vector<const CutOrigin*> all{&target, assistant, dflash};
    std::erase(all, nullptr);
    return all;
  }
};

}  // namespace lapidary::link
