// Whose turn it is where several texts share an engine: a round for all that decode, as many as it has rows for, then a chunk of one
// prompt, or of several that are no longer together, and again. So nobody is silent for longer than the rounds of the others and a
// chunk, every prompt gets on, and those who came together decode together.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.hpp"

namespace lapidary::decode {

class Scheduler {
 public:
  // most_rows: of a round; chunk_rows: of a chunk when nobody waits for it.
  Scheduler(int most_rows, int chunk_rows);

  enum class Wish : std::uint8_t { nothing, chunk, round };
  struct Text {
    std::uint64_t id = 0;  // its own, while it lasts
    Wish wish = Wish::nothing;
  };
  struct Unit {
    Wish kind = Wish::nothing;
    std::array<std::size_t, graph::kMaxVerifyRows> places{};  // in what next() was given
    std::size_t count = 0;
    int chunk_rows = 0;  // at most

    std::span<const std::size_t> whose() const& { return std::span(places).first(count); }
    std::span<const std::size_t> whose() && = delete;  // it would outlive what it shows
  };
  // What to do now. Nothing only where nobody wishes anything.
  Unit next(std::span<const Text> texts);

  // What it took, so that chunks do not become longer than others like to wait.
  void observe_round(double seconds);
  void observe_chunk(int rows, double seconds);

 private:
  int chunk_rows_beside_rounds() const;
  Unit round_of(std::span<const Text> texts);
  Unit chunk_of(std::span<const Text> texts, int most_rows);

  const int most_rows_, chunk_rows_;
  std::vector<std::uint64_t> served_;   // had their round in this turn
  std::uint64_t last_chunk_ = 0;        // whose it was
  int granted_rows_ = 0, rows_left_ = 0;  // of the last chunk, and what it left of them for others
  double round_s_ = 0, row_s_ = 0;      // of a round, of a row of a chunk: averages; 0 = not known
};

}  // namespace lapidary::decode
