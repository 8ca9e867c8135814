// The one loop that turns a prompt into tokens: every command generates through it. It computes the prompt chunk by chunk, then
// plays rounds; one without drafts is plain decoding. Where the backend can, the next round begins before the last one is known.
#pragma once

#include <array>
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

// complete: the constraint lets nothing follow.
enum class StopReason : std::uint8_t { none, stop_token, complete, max_tokens, context, cancelled };
std::string_view name_of(StopReason reason);

struct GenerateOptions {
  graph::Sampling sampling{};                    // what its spans point to must outlive the generation
  SoftTokens soft{};                             // of the prompt; what it points to must stay until that has been read
  std::int32_t max_tokens = INT32_MAX;
  std::span<const std::int32_t> stop_ids{};
  std::optional<Constraint> constraint{};
  Speculation* speculation = nullptr;            // the engine's; null = no drafts
  std::optional<DraftChoice> drafts{};           // of it; none = as the engine has them
  std::vector<std::int32_t> prediction{};        // of the text, for whoever drafts; no token depends on it
  std::span<const std::int32_t> landmarks{};     // tokens after which the text is of another nature
  const std::atomic<bool>* cancel = nullptr;     // looked at before each chunk of the prompt, each segment of a round and each token
  bool wants_logits = false;                     // Generation::logits() and hidden() are going to be read
};

// The rounds that one call played, each with its rows: one token of every text in it, and the drafts.
struct PlayedRounds {
  std::array<int, graph::kMaxVerifyRows> rows{};
  std::size_t count = 0;

  void add(int rows_of_one) { rows[count++] = rows_of_one; }
};

class Generation {
 public:
  // To append `prompt` to the session; throws when it does not fit. It is computed by turn(), or by the first next().
  Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation();

  // The next token, or nothing when the generation has ended. A stop token ends it and is not returned.
  std::optional<std::int32_t> next();
  // A chunk of the prompt, of at most so many rows: no byte depends on it.
  void turn(int most_rows = INT32_MAX);
  bool in_prompt() const { return reading_; }
  // next() begins with a round.
  bool wants_round() const;
  // That round for all that want one, in one pass; of one executor, and no more than the rows of its widest round. The tokens of
  // each are those that it would have alone. A round for several is not cancelled once it has begun.
  static PlayedRounds play_together(std::span<Generation* const> generations);
  // Leaves in the session what was returned, and nothing after it; of a prompt what has been computed. An end by itself does so too.
  void stop();
  StopReason reason() const { return reason_; }
  // Is what was returned all that the constraint asks for?
  bool complete() const { return !options_.constraint || options_.constraint->complete(); }

  std::int32_t count() const { return count_; }                // tokens returned
  std::int32_t stop_token() const { return stop_token_; }      // the one that ended it, or -1
  const SpeculationStats& stats() const { return drafting_->stats(); }
  std::int64_t accepted_drafts() const { return accepted_drafts_; }  // among the tokens returned
  // The model's logits that the last returned token was chosen from, and its row after the final norm; until the next token.
  std::span<const float> logits() const { return row_of(logits_, session_.vocab()); }
  std::span<const float> hidden() const { return row_of(hidden_, session_.hidden_size()); }

 private:
  bool ended() const { return options_.constraint && options_.constraint->ended(); }
  bool cancelled() const { return options_.cancel && options_.cancel->load(std::memory_order_relaxed); }
  int draft_room() const;
  int play_round();
  int take_round();
  static int finish_rounds(std::span<Generation* const> playing, std::size_t measuring);
  void take(const Session::Round& round, int other_rows = 0, double other_draft_s = 0, bool measures = true);
  void run_ahead();
  int prune(std::span<const std::int32_t> drafts);
  void fill_masks();
  void take_chosen(std::span<const std::int32_t> tokens);
  std::span<const float> row_of(const std::vector<float>& rows, std::int32_t width) const {
    return std::span(rows).subspan(static_cast<std::size_t>(taken_ - 1) * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
  }
  std::optional<std::int32_t> end(StopReason reason);

  Session& session_;
  GenerateOptions options_;
  Speculation::Text drafting_;
  graph::Request request_;
  Session::RoundHooks hooks_;
  std::vector<std::int32_t> history_;          // all tokens up to the last chosen one
  std::vector<std::int32_t> history_counts_;   // [vocab], when something penalises
  std::vector<Constraint> limits_;             // by row: what limits it; as many as a round can have
  std::size_t limited_ = 0;                    // of the next round
  std::vector<std::uint32_t> masks_;           // [rows, words], when something constrains
  std::vector<float> logits_, hidden_;         // of the last round, by token, when they are wanted: the backend's are soon another's
  int chosen_ = 0, taken_ = 0;                 // of the last round: tokens, those returned
  std::int32_t base_ = 0;                      // session length up to the first of them
  std::int32_t count_ = 0;
  std::int64_t accepted_drafts_ = 0;
  std::int32_t stop_token_ = -1;
  bool reading_ = false;                       // the session has some of the prompt before it
  StopReason reason_ = StopReason::none;
};

}  // namespace lapidary::decode
