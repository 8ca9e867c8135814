// The one loop that turns a prompt into tokens: every command generates through it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/constraint.hpp"
#include "decode/session.hpp"

namespace lapidary::decode {

enum class StopReason : std::uint8_t { none, stop_token, max_tokens, context };
std::string_view name_of(StopReason reason);

struct GenerateOptions {
  graph::Sampling sampling{};                    // what its spans point to must outlive the generation
  std::int32_t max_tokens = INT32_MAX;
  std::span<const std::int32_t> stop_ids{};
  std::optional<Constraint> constraint{};
};

class Generation {
 public:
  // Appends `prompt` to the session; throws when it does not fit.
  Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options);

  // The next token, or nothing when the generation has ended. A stop token ends it and is not returned.
  std::optional<std::int32_t> next();
  StopReason reason() const { return reason_; }

  std::int32_t count() const { return count_; }                // tokens returned
  std::int32_t stop_token() const { return stop_token_; }      // the one that ended it, or -1
  // The model's logits that the last returned token was chosen from; until the next call of next().
  std::span<const float> logits() const { return session_.logits(); }

 private:
  const graph::Selection* selection();  // for the token with index count_
  std::optional<std::int32_t> end(StopReason reason);

  Session& session_;
  GenerateOptions options_;
  std::vector<std::int32_t> history_counts_;   // [vocab], when something penalises
  std::vector<std::uint32_t> mask_;            // when something constrains
  graph::SelectRow row_;
  graph::Selection selection_;
  std::int32_t count_ = 0;
  std::int32_t last_ = -1;                     // returned, its K/V not yet computed
  std::int32_t stop_token_ = -1;
  StopReason reason_ = StopReason::none;
};

}  // namespace lapidary::decode
