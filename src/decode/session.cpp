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
constexpr SegmentId kOutputs[] = {SegmentId::head, SegmentId::select};
constexpr SegmentId kRound[] = {SegmentId::forward, SegmentId::head, SegmentId::select};

}  // namespace

Session::Session(const link::Program& program, link::Executor& executor, int slot)
    : program_(program), executor_(executor), slot_(slot),
      rows_(std::max(program.plan.chunk_rows, program.plan.verify_rows)) {
  tokens_.reserve(capacity());
}

void Session::check(std::span<const std::int32_t> tokens) const {
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= vocab())
      fail(ErrorKind::usage, "token ids", "expected 0 to " + std::to_string(vocab() - 1) + ", got " + std::to_string(token));
  if (tokens.size() > static_cast<std::size_t>(capacity() - length()))
    fail(ErrorKind::usage, "context",
         "expected at most " + std::to_string(capacity()) + " tokens, got " +
             std::to_string(tokens.size() + static_cast<std::size_t>(length())));
  if (tokens.empty()) fail(ErrorKind::usage, "token ids", "expected at least one, got none");
}

RoundState Session::append(std::span<const std::int32_t> tokens) {
  assert(tokens.size() <= rows_.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int32_t position = length() + static_cast<std::int32_t>(i);
    rows_[i] = {slot_, position, tokens[i], position};
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  written_ = std::max(written_, length());
  return {std::span(rows_).first(tokens.size()), 0, 0};
}

void Session::prefill(std::span<const std::int32_t> tokens, const graph::Selection* selection) {
  check(tokens);
  const std::size_t chunk = program_.plan.chunk_rows;
  while (!tokens.empty()) {
    const std::size_t count = std::min(chunk, tokens.size());
    RoundState state = append(tokens.first(count));
    tokens = tokens.subspan(count);
    if (tokens.empty()) {
      state.output_begin = static_cast<std::int32_t>(count) - 1;
      state.output_count = 1;
      state.selection = selection;
      executor_.run(kPromptEnd, state);
    } else {
      executor_.run(kPrompt, state);
    }
  }
}

void Session::prefill_all(std::span<const std::int32_t> tokens, const Observer& observer) {
  check(tokens);
  const std::size_t chunk = program_.plan.chunk_rows;
  std::int32_t first = 0;
  while (!tokens.empty()) {
    const auto count = static_cast<std::int32_t>(std::min(chunk, tokens.size()));
    RoundState state = append(tokens.first(count));
    tokens = tokens.subspan(count);
    if (observer.chunk) observer.chunk(first);
    executor_.run(kPromptAll, state, observer.tap);
    for (std::int32_t begin = 0; begin < count; begin += program_.plan.verify_rows) {
      state.output_begin = begin;
      state.output_count = std::min(program_.plan.verify_rows, count - begin);
      executor_.run(kOutputs, state);
      if (observer.window) observer.window(first + begin, state.output_count);
    }
    first += count;
  }
  // Leave the last token in output 0, as prefill does.
  RoundState last{std::span(rows_).first((first - 1) % chunk + 1), (first - 1) % static_cast<std::int32_t>(chunk), 1};
  executor_.run(kOutputs, last);
}

void Session::forward(std::span<const std::int32_t> tokens, const graph::Selection* selection) {
  check(tokens);
  assert(tokens.size() <= static_cast<std::size_t>(program_.plan.verify_rows));
  RoundState state = append(tokens);
  state.output_count = static_cast<std::int32_t>(tokens.size());
  state.selection = selection;
  executor_.run(kRound, state);
}

void Session::rollback(std::int32_t length) {
  assert(length >= 0 && length <= this->length() && can_rollback(length));
  tokens_.resize(length);
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
  const std::size_t most = std::min(tokens_.size(), tokens.empty() ? 0 : tokens.size() - 1);
  const auto differs = std::mismatch(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(most), tokens.begin());
  const auto common = static_cast<std::int32_t>(differs.first - tokens_.begin());
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
