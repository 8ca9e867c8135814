// What a server has done, as numbers: for Prometheus. Written by hand, since its library comes without a static one, which cut programs
// would need.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/job.hpp"

namespace lapidary::serve {

// How many values were at most as large as each of the bounds.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void observe(double value);
  void write(std::string& text, std::string_view name) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_;  // the last: above all bounds
  double sum_ = 0;
};

// Bounds for what a round takes, or a token.
inline const std::vector<double> kRoundSeconds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};

// On one thread.
struct Metrics {
  struct Now {  // what is read when it is asked for
    int running = 0, waiting = 0, slots = 0;
    std::size_t kv_bytes = 0, cache_bytes = 0;
    std::int64_t evictions = 0;
    std::vector<std::pair<int, std::int64_t>> rounds_by_rows{};
    Histogram round_s{kRoundSeconds};
    std::string version{}, model{}, backend{}, numeric{};
  };

  std::map<std::pair<std::string, int>, std::int64_t> requests{};  // by endpoint and status
  Usage tokens{};                                                  // of all requests
  std::map<std::string_view, std::int64_t> cancelled{{"client", 0}, {"timeout", 0}, {"drain", 0}};  // by why
  Histogram queue_s{{0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60}};
  Histogram first_token_s{{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}};
  Histogram token_s{kRoundSeconds};

  void count(const Usage& usage);
  std::string text(const Now& now) const;  // format 0.0.4
};

}  // namespace lapidary::serve
