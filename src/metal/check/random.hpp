// Numbers and matrices of chance, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "link/weight.hpp"

namespace lapidary::metal::check {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(bits() % count); }
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(bits() >> 40) * 0x1p-24f; }
  std::vector<float> floats(int count, float low, float high);
  std::vector<std::vector<float>> rows(int count, int width, float low = -2.0f, float high = 2.0f);
  std::vector<std::int32_t> different(int count, int limit);  // ids below the limit

 private:
  std::uint64_t bits();  // splitmix64

  std::uint64_t state_;
};

// A matrix of any storage; experts 0 = one matrix.
class RandomMatrix {
 public:
  RandomMatrix(Random& random, const Storage& storage, int rows, int cols, int experts = 0);

  void clip(const link::Clip& clip) { clip_ = clip; }
  link::Matrix view() const;
  std::vector<double> row(int row, int expert = 0) const;  // [cols]

 private:
  void append_scale(Random& random);

  Storage storage_;
  int rows_, cols_, experts_;
  std::vector<std::byte> values_, scales_, biases_;
  link::Clip clip_{};
};

}  // namespace lapidary::metal::check
