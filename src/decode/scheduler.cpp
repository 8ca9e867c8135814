#include "decode/scheduler.hpp"

#include <algorithm>
#include <utility>

namespace lapidary::decode {
namespace {

constexpr double kMostRounds = 8;   // that a chunk may take as long as
constexpr int kLeastChunkRows = 64;
constexpr int kLeastRows = 32;      // that are worth another chunk in the same turn
constexpr double kNew = 0.25;       // weight of what was seen last

void follow(double& average, double seen) { average = average == 0 ? seen : average + kNew * (seen - average); }

}  // namespace

Scheduler::Scheduler(int most_rows, int chunk_rows) : most_rows_(std::min(most_rows, graph::kMaxVerifyRows)), chunk_rows_(chunk_rows) {}

void Scheduler::observe_round(double seconds) { follow(round_s_, seconds); }
void Scheduler::observe_chunk(int rows, double seconds) {
  follow(row_s_, seconds / rows);
  rows_left_ = granted_rows_ - rows;
}

Scheduler::Unit Scheduler::next(std::span<const Text> texts) {
  const bool some_decode = std::ranges::find(texts, Wish::round, &Text::wish) != texts.end();
  const int most_rows = some_decode ? chunk_rows_beside_rounds() : chunk_rows_;
  const int rest = std::min(std::exchange(rows_left_, 0), most_rows);
  if (rest >= kLeastRows)
    if (const Unit unit = chunk_of(texts, rest); unit.count > 0) return unit;
  Unit unit = round_of(texts);
  if (unit.count > 0) return unit;
  served_.clear();  // all that decode have had their round: a turn ends with chunks
  unit = chunk_of(texts, most_rows);
  return unit.count > 0 ? unit : round_of(texts);
}

Scheduler::Unit Scheduler::round_of(std::span<const Text> texts) {
  Unit unit{.kind = Wish::round};
  for (std::size_t i = 0; i < texts.size() && unit.count < static_cast<std::size_t>(most_rows_); ++i)
    if (texts[i].wish == Wish::round && std::ranges::find(served_, texts[i].id) == served_.end()) unit.places[unit.count++] = i;
  for (const std::size_t i : unit.whose()) served_.push_back(texts[i].id);
  return unit.count > 0 ? unit : Unit{};
}

// Prompts in turn, by their ids.
Scheduler::Unit Scheduler::chunk_of(std::span<const Text> texts, int most_rows) {
  const Text* first = nullptr;
  const Text* after_last = nullptr;
  for (const Text& text : texts) {
    if (text.wish != Wish::chunk) continue;
    if (!first || text.id < first->id) first = &text;
    if (text.id > last_chunk_ && (!after_last || text.id < after_last->id)) after_last = &text;
  }
  if (!first) return {};
  const Text& whose = after_last ? *after_last : *first;
  last_chunk_ = whose.id;
  granted_rows_ = most_rows;
  return {.kind = Wish::chunk, .places = {static_cast<std::size_t>(&whose - texts.data())}, .count = 1, .chunk_rows = most_rows};
}

int Scheduler::chunk_rows_beside_rounds() const {
  int rows = chunk_rows_;
  while (rows / 2 >= kLeastChunkRows && row_s_ * rows > kMostRounds * round_s_) rows /= 2;
  return rows;
}

}  // namespace lapidary::decode
