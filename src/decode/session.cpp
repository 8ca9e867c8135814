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

bool Session::round(const Drafts& drafts, const graph::Request* request, const RoundHooks& hooks) {
  assert(drafts.count <= program_.plan.verify_rows - 1 && length() + drafts.count < capacity());
  assert(drafts.tokens || drafts.count == 0 || has_assistant());
  RoundState& state = executor_.state(slot_);
  assert(state.length == length() && state.drafted == 0);
  const link::Run run{.slot = slot_, .chunk = {}, .request = request, .tap = hooks.tap, .times = times_, .cancel = hooks.cancel};
  const auto cancelled = [&] { return hooks.cancel && hooks.cancel->load(std::memory_order_relaxed); };
  const std::int32_t begin = state.length, bonus = state.bonus;

  std::size_t steps = static_cast<std::size_t>(drafts.count);  // for the assistant
  if (drafts.tokens) {
    check_ids({drafts.tokens, steps});
    std::copy_n(drafts.tokens, steps, state.drafts.begin());
    state.drafted = drafts.count;
    steps = 0;
  }
  drafted_ = drafts.count;
  written_ = std::max(written_, begin + 1 + drafted_);
  if (hooks.prune) {
    if (steps) executor_.run(kDraftSteps.last(steps), run);
    if (!cancelled()) {
      drafted_ = executor_.state(slot_).drafted = hooks.prune(executor_.state(slot_).draft_tokens());
      executor_.run(kForward, run);
      hooks.fill();
      executor_.run(kSelect, run);
    }
  } else {
    executor_.run(std::span(kRound).subspan(kMaxDrafts - steps), run);
  }
  if (executor_.state(slot_).length == begin) {  // select never ran
    state.drafted = 0;
    return false;
  }
  tokens_.push_back(bonus);
  for (int i = 0; i < state.accepted; ++i) tokens_.push_back(next(i));
  return true;
}

void Session::forward(std::span<const std::int32_t> tokens, const link::Tap* tap) {
  check(tokens);
  assert(tokens.size() <= static_cast<std::size_t>(program_.plan.verify_rows));
  RoundState& state = executor_.state(slot_);
  state = {.length = length(), .bonus = tokens.front(), .drafted = static_cast<std::int32_t>(tokens.size()) - 1};
  std::copy(tokens.begin() + 1, tokens.end(), state.drafts.begin());
  append(tokens);
  run(kVerify, {}, nullptr, tap);
}

void Session::rollback(std::int32_t length) {
  assert(length >= 0 && length <= this->length() && can_rollback(length));
  tokens_.resize(length);
  prompt_length_ = std::min(prompt_length_, length);
  if (length == 0) written_ = 0;
  drafted_ = 0;
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
