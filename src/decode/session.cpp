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
      rows_(program.plan.row_capacity) {
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

// In order, of this text, and where the model looks ahead no larger than a chunk can be.
void Session::check_soft(const SoftTokens& soft, std::int32_t end) const {
  assert(soft.blocks.size() == soft.rows.size());
  std::int32_t before = 0;
  for (const SoftBlock& block : soft.blocks) {
    if (block.begin < before || block.end <= block.begin || block.end > end)
      fail(ErrorKind::usage, "soft tokens",
           "expected blocks in order in a text of " + std::to_string(end) + " tokens, got one from " + std::to_string(block.begin) +
               " to " + std::to_string(block.end));
    before = block.end;
    if (sees_all(block, shape()) && block.end - block.begin > program_.plan.chunk_rows)
      fail(ErrorKind::usage, "image",
           "expected at most " + std::to_string(program_.plan.chunk_rows) + " soft tokens, as many as a chunk has rows, got " +
               std::to_string(block.end - block.begin));
  }
}

void Session::append(std::span<const std::int32_t> tokens) { tokens_.insert(tokens_.end(), tokens.begin(), tokens.end()); }

std::int32_t Session::turn_end(int most_rows) const {
  assert(in_prompt() && most_rows > 0);
  const auto rest = static_cast<std::int32_t>(prompt_.size());
  const std::int32_t end = length() + std::min({rest, program_.plan.chunk_rows, most_rows});
  const SoftBlock* split = split_block(prompt_soft_.blocks, end, shape());
  if (!split) return end;
  return split->begin > length() ? split->begin : split->end;
}

graph::Chunk Session::next_chunk(int most_rows) {
  const auto count = static_cast<std::size_t>(turn_end(most_rows) - length());
  assert(count <= rows_.size());
  const std::span rows = std::span(rows_).first(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t position = length() + static_cast<std::int32_t>(i);
    rows[i] = {slot_, position, prompt_[i], position};
  }
  soft_.clear();
  add_soft(rows);
  return {.rows = rows, .soft = soft_};
}

void Session::add_soft(std::span<graph::Row> rows) {
  const auto hidden = static_cast<std::size_t>(hidden_size());
  const std::int32_t begin = rows.front().position, end = begin + static_cast<std::int32_t>(rows.size());
  std::int32_t count = 0;
  for (std::size_t b = 0; b < prompt_soft_.blocks.size(); ++b) {
    const SoftBlock& block = prompt_soft_.blocks[b];
    const std::int32_t first = std::max(begin, block.begin), last = std::min(end, block.end);
    if (first >= last) continue;
    const std::span<const float> all = prompt_soft_.rows[b];
    assert(all.size() == static_cast<std::size_t>(block.end - block.begin) * hidden);
    const std::span here = all.subspan(static_cast<std::size_t>(first - block.begin) * hidden, static_cast<std::size_t>(last - first) * hidden);
    soft_.insert(soft_.end(), here.begin(), here.end());
    for (std::int32_t position = first; position < last; ++position) {
      graph::Row& row = rows[static_cast<std::size_t>(position - begin)];
      row.token = graph::kPadToken;
      row.soft = count++;
      if (sees_all(block, shape())) row.block_end = block.end - 1;
    }
  }
}

// It has been computed.
void Session::take_chunk(const graph::Chunk& chunk) {
  const bool after_prompt = prompt_length_ == length();
  const auto before = blocks_before(prompt_soft_.blocks, length());
  append(prompt_.first(chunk.rows.size()));
  prompt_ = prompt_.subspan(chunk.rows.size());
  const auto begun = blocks_before(prompt_soft_.blocks, length()).subspan(before.size());
  blocks_.insert(blocks_.end(), begun.begin(), begun.end());
  if (after_prompt) prompt_length_ = length();
}

void Session::run(Play play, const graph::Chunk& chunk, const graph::Request* request, const link::StepObserver* observe) {
  const link::Seat seat{.slot = slot_, .chunk = chunk, .request = request};
  last_run_ = executor_.submit(play, {&seat, 1}, {.observe = observe, .times = times_});
  last_seat_ = 0;
}

void Session::begin_prompt(std::span<const std::int32_t> tokens, const graph::Request* request, const SoftTokens& soft) {
  end_rounds();
  check(tokens);
  check_soft(soft, length() + static_cast<std::int32_t>(tokens.size()));
  executor_.state(slot_) = {};
  prompt_ = tokens;
  prompt_soft_ = soft;
  prompt_request_ = request;
}

void Session::turn(int most_rows) {
  graph::Chunk chunk = next_chunk(most_rows);
  const bool last = chunk.rows.size() == prompt_.size();
  if (last) {
    chunk.output_begin = static_cast<std::int32_t>(chunk.rows.size()) - 1;
    chunk.output_count = 1;
  }
  run(last ? Play::prompt_end : Play::prompt, chunk, prompt_request_);
  take_chunk(chunk);
}

void Session::prefill(std::span<const std::int32_t> tokens, const graph::Request* request, const SoftTokens& soft) {
  begin_prompt(tokens, request, soft);
  while (in_prompt()) turn();
}

void Session::prefill_all(std::span<const std::int32_t> tokens, const Observer& observer, const SoftTokens& soft) {
  begin_prompt(tokens, nullptr, soft);
  graph::Chunk chunk;
  std::int32_t first = 0;
  while (in_prompt()) {
    chunk = next_chunk(INT32_MAX);
    const auto count = static_cast<std::int32_t>(chunk.rows.size());
    if (observer.chunk) observer.chunk(first);
    run(Play::prompt_all, chunk, nullptr, observer.step ? &observer.step : nullptr);
    take_chunk(chunk);
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
  assert(drafts.tokens || drafts.count == 0 || (drafts.block ? drafters().dflash : drafters().assistant));
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
  return {.slot = slot_, .chunk = {}, .drafts = drafts.tokens ? 0 : drafts.count,
          .block = drafts.block && drafts.count > 0, .request = player.request, .report = &round.report};
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
    seats[s].block = false;
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
  length = whole_length(blocks_, length, shape());
  tokens_.resize(static_cast<std::size_t>(length));
  blocks_.resize(blocks_before(blocks_, length).size());
  prompt_length_ = std::min(prompt_length_, length);
}

void Session::copy(Session& from, std::int32_t length) {
  end_rounds();
  from.end_rounds();
  assert(&executor_ == &from.executor_ && length >= 0 && length <= from.length());
  leave_prompt();
  length = whole_length(from.blocks_, length, shape());
  executor_.copy_slot(from.slot_, slot_, length);
  tokens_.assign(from.tokens_.begin(), from.tokens_.begin() + length);
  const auto begun = blocks_before(from.blocks_, length);
  blocks_.assign(begun.begin(), begun.end());
  prompt_length_ = std::min(from.prompt_length_, length);
}

link::SlotMemory Session::memory() {
  end_rounds();
  if (drafters().dflash && length() > 0) {
    executor_.state(slot_).length = length();
    const link::Seat seat{.slot = slot_};
    executor_.await(executor_.submit(Play::catch_up, {&seat, 1}));
  }
  return executor_.slot_memory(slot_);
}

void Session::adopt(std::span<const std::int32_t> tokens, std::span<const SoftBlock> blocks, std::int32_t prompt_length) {
  assert(!in_flight() && !in_prompt() && prompt_length <= static_cast<std::int32_t>(tokens.size()));
  tokens_.assign(tokens.begin(), tokens.end());
  blocks_.assign(blocks.begin(), blocks.end());
  prompt_length_ = prompt_length;
}

std::int32_t Session::reusable_length() const { return executor_.prompts_stand_apart() ? prompt_length_ : length(); }

std::int32_t Session::keep_common_prefix(std::span<const std::int32_t> tokens, std::span<const SoftBlock> blocks) {
  end_rounds();
  const std::size_t most = std::min(tokens_.size(), tokens.empty() ? 0 : tokens.size() - 1);
  const auto differs = std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), tokens.begin());
  auto common = common_length(static_cast<std::int32_t>(differs.first - tokens_.begin()), blocks_, blocks);
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
