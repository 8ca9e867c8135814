#include "decode/session.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "checkpoint/error.hpp"

namespace lapidary::decode {
namespace {

using graph::RoundState;
using link::Play;

}  // namespace

Session::Session(const link::Program& program, link::Executor& executor, int slot)
    : program_(program), executor_(executor), slot_(slot),
      rows_(std::max(program.plan.chunk_rows, program.plan.verify_rows)) {
  tokens_.reserve(capacity());
}

void Session::check_ids(std::span<const std::int32_t> tokens) const {
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= vocab())
      fail(ErrorKind::usage, "token ids", "expected 0 to " + std::to_string(vocab() - 1) + ", got " + std::to_string(token));
}

void Session::check(std::span<const std::int32_t> tokens) const {
  check_ids(tokens);
  if (tokens.size() > static_cast<std::size_t>(capacity() - length()))
    fail(ErrorKind::usage, "context",
         "expected at most " + std::to_string(capacity()) + " tokens, got " +
             std::to_string(tokens.size() + static_cast<std::size_t>(length())));
  if (tokens.empty()) fail(ErrorKind::usage, "token ids", "expected at least one, got none");
}

graph::Chunk Session::rows_of(std::span<const std::int32_t> tokens) {
  assert(tokens.size() <= rows_.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t position = length() + static_cast<std::int32_t>(i);
    rows_[i] = {slot_, position, tokens[i], position};
  }
  return {std::span(rows_).first(tokens.size())};
}

void Session::append(std::span<const std::int32_t> tokens) { tokens_.insert(tokens_.end(), tokens.begin(), tokens.end()); }

void Session::append_prompt(std::span<const std::int32_t> tokens) {
  const bool after_prompt = prompt_length_ == length();
  append(tokens);
  if (after_prompt) prompt_length_ = length();
}

void Session::run(Play play, const graph::Chunk& chunk, const graph::Request* request, const link::StepObserver* observe) {
  const link::Seat seat{.slot = slot_, .chunk = chunk, .request = request};
  last_run_ = executor_.submit(play, {&seat, 1}, {.observe = observe, .times = times_});
  last_seat_ = 0;
}

void Session::begin_prompt(std::span<const std::int32_t> tokens, const graph::Request* request) {
  end_rounds();
  check(tokens);
  executor_.state(slot_) = {};
  prompt_ = tokens;
  prompt_request_ = request;
}

void Session::turn(int most_rows) {
  assert(in_prompt() && most_rows > 0);
  const auto rows = static_cast<std::size_t>(std::min(program_.plan.chunk_rows, most_rows));
  const std::span<const std::int32_t> tokens = prompt_.first(std::min(rows, prompt_.size()));
  graph::Chunk chunk = rows_of(tokens);
  const bool last = tokens.size() == prompt_.size();
  if (last) {
    chunk.output_begin = static_cast<std::int32_t>(tokens.size()) - 1;
    chunk.output_count = 1;
  }
  run(last ? Play::prompt_end : Play::prompt, chunk, prompt_request_);
  append_prompt(tokens);
  prompt_ = prompt_.subspan(tokens.size());
}

void Session::prefill(std::span<const std::int32_t> tokens, const graph::Request* request) {
  begin_prompt(tokens, request);
  while (in_prompt()) turn();
}

void Session::prefill_all(std::span<const std::int32_t> tokens, const Observer& observer) {
  begin_prompt(tokens);
  leave_prompt();
  graph::Chunk chunk;
  std::int32_t first = 0;
  while (!tokens.empty()) {
    const auto count = static_cast<std::int32_t>(std::min<std::size_t>(program_.plan.chunk_rows, tokens.size()));
    chunk = rows_of(tokens.first(count));
    if (observer.chunk) observer.chunk(first);
    run(Play::prompt_all, chunk, nullptr, observer.step ? &observer.step : nullptr);
    append_prompt(tokens.first(count));
    tokens = tokens.subspan(count);
    for (std::int32_t begin = 0; begin < count; begin += program_.plan.verify_rows) {
      chunk.output_begin = begin;
      chunk.output_count = std::min(program_.plan.verify_rows, count - begin);
      run(Play::head, chunk, nullptr);
      if (observer.window) observer.window(first + begin, chunk.output_count);
    }
    first += count;
  }
  // Leave the last token in output 0, as prefill does.
  chunk.output_begin = static_cast<std::int32_t>(chunk.rows.size()) - 1;
  chunk.output_count = 1;
  run(Play::head_select, chunk, nullptr);
}

bool Session::begin_round(const Drafts& drafts, const graph::Request* request, const RoundHooks& hooks) {
  const Player player{this, drafts, request, &hooks};
  return begin_rounds({&player, 1}, {.observe = hooks.observe, .times = times_, .cancel = hooks.cancel});
}

// Nothing has changed where it throws.
link::Seat Session::take_seat(const Player& player) {
  const bool ahead = in_flight_ > 0;
  const Drafts& drafts = player.drafts;
  assert(!in_prompt() && (!ahead || (may_run_ahead() && !drafts.tokens && !(player.hooks && player.hooks->prune))));
  assert(drafts.count < widest_round() && most_length() + drafts.count < capacity());
  assert(drafts.tokens || drafts.count == 0 || has_assistant());
  if (drafts.tokens) check_ids({drafts.tokens, static_cast<std::size_t>(drafts.count)});
  if (!ahead) {
    RoundState& state = executor_.state(slot_);
    assert(state.length == length() && state.drafted == 0);
    bonus_ = state.bonus;
    if (drafts.tokens) {
      std::copy_n(drafts.tokens, drafts.count, state.drafts.begin());
      state.drafted = drafts.count;
    }
  }
  Round& round = next_round() = {.drafted = drafts.count};
  return {.slot = slot_, .chunk = {}, .drafts = drafts.tokens ? 0 : drafts.count, .request = player.request, .report = &round.report};
}

void Session::leave_seat() {
  if (in_flight_ == 0) executor_.state(slot_).drafted = 0;
}

bool Session::begin_rounds(std::span<const Player> players, const link::Watch& watch) {
  std::array<link::Seat, graph::kMaxVerifyRows> seats;
  std::size_t count = 0;
  int rows = 0;
  bool prunes = false;
  link::RunId run = link::kNoRun;
  const auto leave = [&] {
    for (std::size_t s = 0; s < count; ++s) players[s].session->leave_seat();
  };
  try {
    for (const Player& player : players) {
      rows += player.drafts.count + 1;
      assert(rows <= player.session->widest_round() && &player.session->executor_ == &players[0].session->executor_);
      seats[count] = player.session->take_seat(player);
      ++count;
      prunes = prunes || (player.hooks && player.hooks->prune);
    }
    const std::span taken = std::span(seats).first(count);
    run = prunes ? play_in_parts(players, taken, watch) : players[0].session->executor_.submit(Play::round, taken, watch);
  } catch (...) {
    leave();
    throw;
  }
  if (run == link::kNoRun) {
    leave();
    return false;
  }
  for (std::size_t s = 0; s < count; ++s) {
    Session& session = *players[s].session;
    session.next_round().run = run;
    session.next_round().seat = static_cast<int>(s);
    ++session.in_flight_;
  }
  return true;
}

link::RunId Session::play_in_parts(std::span<const Player> players, std::span<link::Seat> seats, const link::Watch& watch) {
  link::Executor& executor = players[0].session->executor_;
  const bool drafts = std::ranges::any_of(seats, [](const link::Seat& seat) { return seat.drafts > 0; });
  if (drafts && executor.submit(Play::draft, seats, watch) == link::kNoRun) return link::kNoRun;
  for (std::size_t s = 0; s < players.size(); ++s) {
    seats[s].drafts = 0;
    if (!players[s].hooks || !players[s].hooks->prune) continue;
    RoundState& state = executor.state(seats[s].slot);
    players[s].session->next_round().drafted = state.drafted = players[s].hooks->prune(state.draft_tokens());
  }
  if (executor.submit(Play::verify, seats, watch) == link::kNoRun) return link::kNoRun;
  for (const Player& player : players)
    if (player.hooks && player.hooks->fill) player.hooks->fill();
  return executor.submit(Play::select, seats, watch);
}

Session::Round Session::end_round() {
  assert(in_flight());
  const Round& round = rounds_[oldest_];
  executor_.await(round.run);
  const std::span<const std::int32_t> chosen = round.report.result.chosen();
  tokens_.push_back(bonus_);
  tokens_.insert(tokens_.end(), chosen.begin(), chosen.end() - 1);
  bonus_ = chosen.back();
  last_run_ = round.run;
  last_seat_ = round.seat;
  oldest_ = (oldest_ + 1) % static_cast<int>(rounds_.size());
  --in_flight_;
  return round;
}

void Session::end_rounds() {
  while (in_flight()) end_round();
}

std::int32_t Session::most_length() const {
  std::int32_t most = length();
  for (int i = 0; i < in_flight_; ++i) most += 1 + rounds_[(oldest_ + i) % rounds_.size()].drafted;
  return most;
}

link::Outputs Session::outputs() const {
  assert(!in_flight());
  return executor_.outputs(last_run_, last_seat_);
}

void Session::forward(std::span<const std::int32_t> tokens, const link::StepObserver* observe) {
  end_rounds();
  leave_prompt();
  check(tokens);
  assert(tokens.size() <= static_cast<std::size_t>(program_.plan.verify_rows));
  RoundState& state = executor_.state(slot_);
  state = {.length = length(), .bonus = tokens.front(), .drafted = static_cast<std::int32_t>(tokens.size()) - 1};
  std::copy(tokens.begin() + 1, tokens.end(), state.drafts.begin());
  run(Play::round, {}, nullptr, observe);
  append(tokens);
}

void Session::rollback(std::int32_t length) {
  end_rounds();
  assert(length >= 0 && length <= this->length() && can_rollback(length));
  leave_prompt();
  tokens_.resize(length);
  prompt_length_ = std::min(prompt_length_, length);
}

void Session::copy(Session& from, std::int32_t length) {
  end_rounds();
  from.end_rounds();
  assert(&executor_ == &from.executor_ && length >= 0 && length <= from.length());
  leave_prompt();
  executor_.copy_slot(from.slot_, slot_, length);
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + length);
  prompt_length_ = std::min(from.prompt_length_, length);
}

link::SlotMemory Session::memory() {
  end_rounds();
  return executor_.slot_memory(slot_);
}

void Session::adopt(std::span<const std::int32_t> tokens, std::int32_t prompt_length) {
  assert(!in_flight() && !in_prompt() && prompt_length <= static_cast<std::int32_t>(tokens.size()));
  tokens_.assign(tokens.begin(), tokens.end());
  prompt_length_ = prompt_length;
}

std::int32_t Session::reusable_length() const { return executor_.prompts_stand_apart() ? prompt_length_ : length(); }

std::int32_t Session::keep_common_prefix(std::span<const std::int32_t> tokens) {
  end_rounds();
  const std::size_t most = std::min(tokens_.size(), tokens.empty() ? 0 : tokens.size() - 1);
  const auto differs = std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), tokens.begin());
  auto common = static_cast<std::int32_t>(differs.first - tokens_.begin());
  common = std::min(common, reusable_length());
  rollback(can_rollback(common) ? common : 0);
  return length();
}

std::vector<std::int32_t> greedy(Session& session, std::int32_t count) {
  std::vector<std::int32_t> tokens;
  while (static_cast<std::int32_t>(tokens.size()) < count) {
    tokens.push_back(session.next());
    if (static_cast<std::int32_t>(tokens.size()) < count) session.forward(std::span(tokens).last(1));
  }
  return tokens;
}

}  // namespace lapidary::decode
