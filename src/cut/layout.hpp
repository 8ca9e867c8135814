// Where everything of a payload lies: the values of the weights in the order in which the steps read them, on lines of the cache, then
// their scales and biases; behind them, on pages, what the backend has prepared, and the tables.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "link/link.hpp"
#include "link/manifest.hpp"

namespace lapidary::cut {

class Layout {
 public:
  using Write = std::function<void(std::span<const std::byte>)>;
  using Progress = std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)>;

  // Copies of all matrices of a program; and none of them, which are used where they lie.
  void add_weights(const link::Program& program);
  void leave_weights(const link::Program& program);
  link::PlacedBlock add_block(std::string bytes);  // keeps them
  void finish();                                  // nothing is added after it

  const std::vector<link::PlacedMatrix>& matrices() const { return matrices_; }  // by WeightId
  const std::vector<std::string>& files() const { return files_; }              // paths, as PlacedMatrix::file counts them from 1
  std::uint64_t bytes() const { return bytes_; }
  // All of it, from beginning to end.
  void write(const Write& write, const Progress& progress) const;

 private:
  struct Copy {
    std::uint64_t offset;
    std::span<const std::byte> from;
  };
  std::uint64_t place(std::uint64_t bytes, std::size_t alignment);
  std::uint64_t copy_experts(const std::byte* from, std::size_t experts, std::size_t expert_bytes, std::size_t stride_bytes);

  std::vector<link::PlacedMatrix> matrices_;
  std::vector<std::string> files_;
  std::deque<std::string> blocks_;
  std::vector<Copy> copies_;  // by offset
  std::uint64_t bytes_ = 0;
};

}  // namespace lapidary::cut
