#include "decode/session.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "checkpoint/error.hpp"

namespace lapidary::decode {
namespace {

using graph::RoundState;
using graph::SegmentId;

constexpr SegmentId kPrompt[] = {SegmentId::prefill};
constexpr SegmentId kPromptEnd[] = {SegmentId::prefill, SegmentId::head, SegmentId::select};
constexpr SegmentId kPromptAll[] = {SegmentId::prefill_all};
constexpr SegmentId kHead[] = {SegmentId::head};
constexpr SegmentId kOutputs[] = {SegmentId::head, SegmentId::select};

// The longest round; one with fewer drafts begins later.
constexpr SegmentId kRound[] = {SegmentId::draft, SegmentId::draft, SegmentId::draft,   SegmentId::draft, SegmentId::draft,
                                SegmentId::draft, SegmentId::draft, SegmentId::forward, SegmentId::head,  SegmentId::select};
constexpr std::span kDraftSteps = std::span(kRound).first<kMaxDrafts>();
constexpr std::span kVerify = std::span(kRound).subspan<kMaxDrafts>();
constexpr std::span kForward = kVerify.first<2>();
constexpr std::span kSelect = kVerify.last<1>();

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

graph::Chunk Session::append(std::span<const std::int32_t> tokens) {
  assert(tokens.size() <= rows_.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t position = length() + static_cast<std::int32_t>(i);
    rows_[i] = {slot_, position, tokens[i], position};
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  written_ = std::max(written_, length());
  return {std::span(rows_).first(tokens.size())};
}

graph::Chunk Session::append_prompt(std::span<const std::int32_t> tokens) {
  const bool after_prompt = prompt_length_ == length();
  const graph::Chunk chunk = append(tokens);
  if (after_prompt) prompt_length_ = length();
  return chunk;
}

void Session::run(std::span<const SegmentId> segments, const graph::Chunk& chunk, const graph::Request* request,
                  const link::Tap* tap) {
  executor_.run(segments, {.slot = slot_, .chunk = chunk, .request = request, .tap = tap, .times = times_});
}

void Session::prefill(std::span<const std::int32_t> tokens, const graph::Request* request) {
  end_rounds();
  check(tokens);
  executor_.state(slot_) = {};
  const std::size_t rows = program_.plan.chunk_rows;
  while (!tokens.empty()) {
    const std::size_t count = std::min(rows, tokens.size());
    graph::Chunk chunk = append_prompt(tokens.first(count));
    tokens = tokens.subspan(count);
    if (tokens.empty()) {
      chunk.output_begin = static_cast<std::int32_t>(count) - 1;
      chunk.output_count = 1;
      run(kPromptEnd, chunk, request);
    } else {
      run(kPrompt, chunk, request);
    }
  }
}

void Session::prefill_all(std::span<const std::int32_t> tokens, const Observer& observer) {
  end_rounds();
  check(tokens);
  executor_.state(slot_) = {};
  const std::size_t rows = program_.plan.chunk_rows;
  graph::Chunk chunk;
  std::int32_t first = 0;
  while (!tokens.empty()) {
    const auto count = static_cast<std::int32_t>(std::min(rows, tokens.size()));
    chunk = append_prompt(tokens.first(count));
    tokens = tokens.subspan(count);
    if (observer.chunk) observer.chunk(first);
    run(kPromptAll, chunk, nullptr, observer.tap ? &observer.tap : nullptr);
    for (std::int32_t begin = 0; begin < count; begin += program_.plan.verify_rows) {
      chunk.output_begin = begin;
      chunk.output_count = std::min(program_.plan.verify_rows, count - begin);
      run(kHead, chunk, nullptr);
      if (observer.window) observer.window(first + begin, chunk.output_count);
    }
    first += count;
  }
  // Leave the last token in output 0, as prefill does.
  chunk.output_begin = static_cast<std::int32_t>(chunk.rows.size()) - 1;
  chunk.output_count = 1;
  run(kOutputs, chunk, nullptr);
}

bool Session::begin_round(const Drafts& drafts, const graph::Request* request, const RoundHooks& hooks) {
  const bool ahead = in_flight_ > 0;
  assert(!ahead || (may_run_ahead() && !drafts.tokens && !hooks.prune && !hooks.tap));
  assert(drafts.count < widest_round() && most_length() + drafts.count < capacity());
  assert(drafts.tokens || drafts.count == 0 || has_assistant());
  auto draft_steps = static_cast<std::size_t>(drafts.count);  // for the assistant
  if (!ahead) {
    RoundState& state = executor_.state(slot_);
    assert(state.length == length() && state.drafted == 0);
    bonus_ = state.bonus;
    if (drafts.tokens) {
      check_ids({drafts.tokens, draft_steps});
      std::copy_n(drafts.tokens, draft_steps, state.drafts.begin());
      state.drafted = drafts.count;
      draft_steps = 0;
    }
  }
  written_ = std::max(written_, most_length() + 1 + drafts.count);
  Round& round = rounds_[(oldest_ + in_flight_) % rounds_.size()] = {.drafted = drafts.count};
  const link::Run run{.slot = slot_, .chunk = {}, .request = request, .tap = hooks.tap, .times = times_,
                      .cancel = hooks.cancel, .report = &round.report};
  if (!run_round(draft_steps, round, run, hooks)) {
    if (!ahead) executor_.state(slot_).drafted = 0;
    return false;
  }
  ++in_flight_;
  return true;
}

bool Session::run_round(std::size_t draft_steps, Round& round, const link::Run& run, const RoundHooks& hooks) {
  if (!hooks.prune) return executor_.run(std::span(kRound).subspan(kMaxDrafts - draft_steps), run);
  if (draft_steps && !executor_.run(kDraftSteps.last(draft_steps), run)) return false;
  RoundState& state = executor_.state(slot_);
  round.drafted = state.drafted = hooks.prune(state.draft_tokens());
  if (!executor_.run(kForward, run)) return false;
  hooks.fill();
  return executor_.run(kSelect, run);
}

Session::Round Session::end_round() {
  assert(in_flight());
  const Round& round = rounds_[oldest_];
  executor_.await(round.report);
  const std::span<const std::int32_t> chosen = round.report.result.chosen();
  tokens_.push_back(bonus_);
  tokens_.insert(tokens_.end(), chosen.begin(), chosen.end() - 1);
  bonus_ = chosen.back();
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

const link::Executor& Session::idle() const {
  assert(!in_flight());
  return executor_;
}

void Session::forward(std::span<const std::int32_t> tokens, const link::Tap* tap) {
  end_rounds();
  check(tokens);
  assert(tokens.size() <= static_cast<std::size_t>(program_.plan.verify_rows));
  RoundState& state = executor_.state(slot_);
  state = {.length = length(), .bonus = tokens.front(), .drafted = static_cast<std::int32_t>(tokens.size()) - 1};
  std::copy(tokens.begin() + 1, tokens.end(), state.drafts.begin());
  append(tokens);
  run(kVerify, {}, nullptr, tap);
}

void Session::rollback(std::int32_t length) {
  end_rounds();
  assert(length >= 0 && length <= this->length() && can_rollback(length));
  tokens_.resize(length);
  prompt_length_ = std::min(prompt_length_, length);
  if (length == 0) written_ = 0;
}

bool Session::can_rollback(std::int32_t length) const {
  if (length == 0) return true;
  const graph::Shape& shape = program_.graph->shape;
  const std::int32_t oldest_visible = std::max(0, length - shape.window + 1);
  for (int l = 0; l < shape.layer_count; ++l)
    if (program_.plan.kv[l].capacity && oldest_visible + program_.plan.kv[l].capacity < written_) return false;
  return true;
}

std::int32_t Session::keep_common_prefix(std::span<const std::int32_t> tokens) {
  end_rounds();
  const std::size_t most = std::min(tokens_.size(), tokens.empty() ? 0 : tokens.size() - 1);
  const auto differs = std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), tokens.begin());
  auto common = static_cast<std::int32_t>(differs.first - tokens_.begin());
  if (executor_.prompts_stand_apart()) common = std::min(common, prompt_length_);
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
