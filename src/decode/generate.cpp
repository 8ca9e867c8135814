#include "decode/generate.hpp"

#include <algorithm>

namespace lapidary::decode {

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::stop_token: return "stop";
    case StopReason::max_tokens: return "max_tokens";
    case StopReason::context: return "context";
    case StopReason::cancelled: return "cancelled";
  }
  return "";
}

Generation::Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options)
    : session_(session), options_(std::move(options)),
      speculation_(options_.speculation ? *options_.speculation : plain_), request_{.sampling = options_.sampling} {
  history_.reserve(static_cast<std::size_t>(session.capacity()) + 1);
  history_.assign(session.tokens().begin(), session.tokens().end());
  history_.insert(history_.end(), prompt.begin(), prompt.end());
  if (options_.sampling.penalises()) {
    history_counts_.resize(session.vocab());
    for (const std::int32_t token : history_)
      if (token >= 0 && token < session.vocab()) ++history_counts_[token];
    request_.counts = history_counts_;
  }
  hooks_.cancel = options_.cancel;
  if (options_.constraint) {
    hooks_.prune = [this](std::span<const std::int32_t> drafts) { return prune(drafts); };
    hooks_.fill = [this] { fill_masks(); };
    walk_.reserve(graph::kMaxVerifyRows);
    masks_.resize(graph::kMaxVerifyRows * text::mask_words(session.vocab()));
    prune({});
    fill_masks();
  }
  speculation_.begin_text();
  session_.prefill(prompt, &request_);
  take_chosen(1);
}

void Generation::take_chosen(int count) {
  base_ = session_.length() - (count - 1);
  chosen_ = count;
  taken_ = 0;
  for (int i = 0; i < count; ++i) history_.push_back(session_.next(i));
}

// Drafts from the first that the grammar refuses on cannot be accepted.
int Generation::prune(std::span<const std::int32_t> drafts) {
  walk_.assign(1, *options_.constraint);
  for (const std::int32_t token : drafts) {
    Constraint after = walk_.back();
    if (!after.accept(token)) break;
    walk_.push_back(std::move(after));
  }
  return static_cast<int>(walk_.size()) - 1;
}

void Generation::fill_masks() {
  const std::size_t words = text::mask_words(session_.vocab());
  const std::span<std::uint32_t> masks = std::span(masks_).first(walk_.size() * words);
  for (std::size_t row = 0; row < walk_.size(); ++row)
    walk_[row].fill_mask(masks.subspan(row * words, words), options_.stop_ids);
  request_.masks = masks;
}

bool Generation::play_round() {
  const std::int32_t room = std::min(options_.max_tokens - count_, session_.capacity() - session_.length()) - 1;
  const link::SegmentSeconds before = session_.seconds();
  const Drafts drafts = speculation_.plan(history_, std::min(kMaxDrafts, room));
  if (!session_.round(drafts, &request_, hooks_)) return false;
  const link::SegmentSeconds after = session_.seconds();
  const auto spent = [&](graph::SegmentId id) {
    return after[static_cast<std::size_t>(id)] - before[static_cast<std::size_t>(id)];
  };
  speculation_.observe(session_.drafted(), session_.accepted(), spent(graph::SegmentId::draft),
                       spent(graph::SegmentId::forward) + spent(graph::SegmentId::head));
  take_chosen(session_.accepted() + 1);
  return true;
}

void Generation::stop() {
  session_.rollback(std::min(session_.length(), base_ + taken_));
}

std::optional<std::int32_t> Generation::end(StopReason reason) {
  reason_ = reason;
  stop();
  return std::nullopt;
}

std::optional<std::int32_t> Generation::next() {
  if (reason_ != StopReason::none) return std::nullopt;
  if (options_.cancel && options_.cancel->load(std::memory_order_relaxed)) return end(StopReason::cancelled);
  if (count_ == options_.max_tokens) return end(StopReason::max_tokens);
  if (taken_ == chosen_) {
    if (session_.length() == session_.capacity()) return end(StopReason::context);
    if (!play_round()) return end(StopReason::cancelled);
  }
  const std::int32_t token = history_[history_.size() - static_cast<std::size_t>(chosen_ - taken_)];
  if (std::ranges::find(options_.stop_ids, token) != options_.stop_ids.end()) {
    stop_token_ = token;
    return end(StopReason::stop_token);
  }
  if (options_.constraint) options_.constraint->accept(token);
  if (std::ranges::find(options_.landmarks, token) != options_.landmarks.end()) speculation_.landmark();
  ++taken_;
  ++count_;
  return token;
}

}  // namespace lapidary::decode
