// Repeatable random numbers for tests, the same on every machine.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace lapidary::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {  // a counter through a mixing function
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  int below(int limit) { return static_cast<int>(bits() % static_cast<std::uint64_t>(limit)); }
  double uniform(double low, double high) { return low + (high - low) * static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(int one_in) { return below(one_in) == 0; }

  std::vector<float> floats(int count, double low, double high) {
    std::vector<float> values;
    for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(uniform(low, high)));
    return values;
  }

  // `count` different numbers below `limit`, in random order.
  std::vector<int> pick(int count, int limit) {
    std::vector<int> all;
    for (int i = 0; i < limit; ++i) all.push_back(i);
    for (int i = 0; i < count; ++i) std::swap(all[i], all[i + below(limit - i)]);
    all.resize(count);
    return all;
  }

 private:
  std::uint64_t state_;
};

}  // namespace lapidary::test
