#include "decode/generate.hpp"

#include <algorithm>

namespace lapidary::decode {

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::stop_token: return "stop";
    case StopReason::max_tokens: return "max_tokens";
    case StopReason::context: return "context";
  }
  return "";
}

Generation::Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options)
    : session_(session), options_(std::move(options)) {
  selection_.sampling = options_.sampling;
  if (options_.constraint) mask_.resize(text::mask_words(session.vocab()));
  if (options_.sampling.penalises()) {
    history_counts_.resize(session.vocab());
    for (const std::int32_t token : session.tokens()) ++history_counts_[token];
    for (const std::int32_t token : prompt)
      if (token >= 0 && token < session.vocab()) ++history_counts_[token];
  }
  session_.prefill(prompt, selection());
}

const graph::Selection* Generation::selection() {
  row_ = {.index = count_};
  if (options_.constraint) {
    options_.constraint->fill_mask(mask_, options_.stop_ids);
    row_.mask = mask_;
  }
  selection_.counts = history_counts_;
  selection_.rows = {&row_, 1};
  return &selection_;
}

std::optional<std::int32_t> Generation::end(StopReason reason) {
  reason_ = reason;
  return std::nullopt;
}

std::optional<std::int32_t> Generation::next() {
  if (reason_ != StopReason::none) return std::nullopt;
  if (count_ == options_.max_tokens) return end(StopReason::max_tokens);
  if (last_ >= 0) {
    if (session_.length() == session_.capacity()) return end(StopReason::context);
    session_.forward({&last_, 1}, selection());
  }
  const std::int32_t token = session_.next();
  if (std::ranges::find(options_.stop_ids, token) != options_.stop_ids.end()) {
    stop_token_ = token;
    return end(StopReason::stop_token);
  }
  if (options_.constraint) options_.constraint->accept(token);
  if (!history_counts_.empty()) ++history_counts_[token];
  last_ = token;
  ++count_;
  return token;
}

}  // namespace lapidary::decode
