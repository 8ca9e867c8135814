// The one loop that turns a prompt into tokens: every command generates through it. It plays rounds; one without drafts is
// plain decoding. Where the backend can, the next round begins before the last one is known.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/constraint.hpp"
#include "decode/session.hpp"
#include "decode/speculation.hpp"

namespace lapidary::decode {

enum class StopReason : std::uint8_t { none, stop_token, max_tokens, context, cancelled };
std::string_view name_of(StopReason reason);

struct GenerateOptions {
  graph::Sampling sampling{};                    // what its spans point to must outlive the generation
  std::int32_t max_tokens = INT32_MAX;
  std::span<const std::int32_t> stop_ids{};
  std::optional<Constraint> constraint{};
  Speculation* speculation = nullptr;            // null = no drafts
  std::span<const std::int32_t> landmarks{};     // tokens after which the text is of another nature
  const std::atomic<bool>* cancel = nullptr;     // looked at before drafting, before verifying and before each token
  bool wants_logits = false;                     // Generation::logits() is going to be read
};

class Generation {
 public:
  // Appends `prompt` to the session; throws when it does not fit.
  Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation();

  // The next token, or nothing when the generation has ended. A stop token ends it and is not returned.
  std::optional<std::int32_t> next();
  // Leaves in the session what was returned, and nothing after it. An end by itself does so too.
  void stop();
  StopReason reason() const { return reason_; }

  std::int32_t count() const { return count_; }                // tokens returned
  std::int32_t stop_token() const { return stop_token_; }      // the one that ended it, or -1
  // The model's logits that the last returned token was chosen from; until the executor runs again.
  std::span<const float> logits() const { return session_.logits(taken_ - 1); }

 private:
  bool play_round();
  void run_ahead();
  int prune(std::span<const std::int32_t> drafts);
  void fill_masks();
  void take_chosen(std::span<const std::int32_t> tokens);
  std::optional<std::int32_t> end(StopReason reason);

  Session& session_;
  GenerateOptions options_;
  Speculation plain_;                          // stands in where none is given
  Speculation& speculation_;
  graph::Request request_;
  Session::RoundHooks hooks_;
  std::vector<std::int32_t> history_;          // all tokens up to the last chosen one
  std::vector<std::int32_t> history_counts_;   // [vocab], when something penalises
  std::vector<Constraint> walk_;               // by row: what limits it
  std::vector<std::uint32_t> masks_;           // [rows, words], when something constrains
  int chosen_ = 0, taken_ = 0;                 // of the last round: tokens, those returned
  std::int32_t base_ = 0;                      // session length up to the first of them
  std::int32_t count_ = 0;
  std::int32_t stop_token_ = -1;
  StopReason reason_ = StopReason::none;
};

}  // namespace lapidary::decode
