// One conversation: its K/V slot in a backend and how much of it is valid. Rollback is a change of length.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/draft.hpp"
#include "decode/soft.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::decode {

class Session {
 public:
  // `program` and `executor` must outlive the session.
  Session(const link::Program& program, link::Executor& executor, int slot = 0);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::int32_t length() const { return static_cast<std::int32_t>(tokens_.size()); }  // positions with valid K/V
  std::int32_t capacity() const { return program_.plan.context_tokens; }
  std::int32_t vocab() const { return program_.graph->shape.vocab; }
  std::int32_t hidden_size() const { return program_.graph->shape.hidden; }
  int widest_round() const { return program_.plan.verify_rows; }    // rows
  link::Drafters drafters() const { return program_.drafters(); }
  std::span<const std::int32_t> tokens() const { return tokens_; }  // [length]
  std::span<const SoftBlock> blocks() const { return blocks_; }     // that have begun in it

  // Appends a prompt, a chunk with each turn(), as large as the plan has it or smaller: others may have theirs in between. Afterwards output 0 belongs to its last token,
  // and the token after it is chosen as the first of `request` (null = the largest logit); what both point to must stay until then.
  // Tokens count when they have been computed, so that a prompt that was left, or has failed, is as long as length() says. Soft tokens
  // stand in the places of others; where a model looks ahead in images, a chunk has the whole of each, even if it becomes larger so.
  void begin_prompt(std::span<const std::int32_t> tokens, const graph::Request* request = nullptr, const SoftTokens& soft = {});
  void turn(int most_rows = INT32_MAX);
  std::int32_t turn_end(int most_rows = INT32_MAX) const;  // how long the text is after that
  bool in_prompt() const { return !prompt_.empty(); }
  void leave_prompt() { prompt_ = {}; }
  // All turns at once.
  void prefill(std::span<const std::int32_t> tokens, const graph::Request* request = nullptr, const SoftTokens& soft = {});

  // The same with the logits of every token: after each window of at most verify_rows rows, `window(first, count)` may read
  // outputs 0..count-1, which belong to tokens first.. of the prompt. `step` sees every step of every chunk; its rows begin
  // at the token that `chunk(first)` named before.
  struct Observer {
    std::function<void(std::int32_t first)> chunk;
    link::StepObserver step;
    std::function<void(std::int32_t first, std::int32_t count)> window;
  };
  void prefill_all(std::span<const std::int32_t> tokens, const Observer& observer, const SoftTokens& soft = {});

  // A round goes on from the token that was chosen last, the bonus token: up to k drafts after it are verified with it in one
  // pass. `drafts` are given, or made by a drafter.
  //
  // `prune`, when there is one, sees the drafts before they are verified and returns how many of them are worth it; `fill`
  // provides the masks of the rows after that, into what `request` points to. A round that is cancelled has changed nothing.
  struct RoundHooks {
    std::function<int(std::span<const std::int32_t> drafts)> prune;
    std::function<void()> fill;
    const std::atomic<bool>* cancel = nullptr;
    const link::StepObserver* observe = nullptr;
  };
  struct Round {
    int drafted = 0;  // as many were verified
    link::RoundReport report{};
    link::RunId run = link::kNoRun;
    int seat = 0;     // in that
  };

  // Where may_run_ahead(), another round without masks or given drafts may begin before the first one has ended, with the same
  // request, which must stay until both have. All that changes the session ends them first.
  bool begin_round(const Drafts& drafts, const graph::Request* request, const RoundHooks& hooks);  // false when cancelled
  Round end_round();                                                                               // the oldest in flight
  bool in_flight() const { return in_flight_ > 0; }
  bool may_run_ahead() const { return in_flight_ == 1 && executor_.runs_ahead(); }
  std::int32_t most_length() const;  // when all have ended

  // The same for several sessions of one executor in one pass, as many as have room: widest_round() rows in all. Each has the bytes
  // that it would have alone. A hook's `cancel` and `observe` are those of a session alone: here `watch` has them for all.
  struct Player {
    Session* session = nullptr;
    Drafts drafts{};
    const graph::Request* request = nullptr;
    const RoundHooks* hooks = nullptr;
  };
  static bool begin_rounds(std::span<const Player> players, const link::Watch& watch = {});

  // Appends 1 to verify_rows given tokens, whatever would be chosen; output i belongs to token i. Only another forward, a
  // prefill or a rollback may follow.
  void forward(std::span<const std::int32_t> tokens, const link::StepObserver* observe = nullptr);

  // Forgets all positions from `length` on, or from the begin of an image around it that is seen as a whole; only where
  // can_rollback(length).
  void rollback(std::int32_t length);

  // A sliding layer's ring keeps little more than a window: a position too far back has been overwritten.
  bool can_rollback(std::int32_t length) const { return executor_.keeps(slot_, whole_length(blocks_, length, shape())); }

  // Becomes the first `length` tokens of another session of the same executor, as that would be after a rollback to them, and only
  // where it could. As long as that one it goes on as that one does, with rounds too; shorter, with a prompt.
  void copy(Session& from, std::int32_t length);

  // How much of it any text with the same beginning may go on from: where prompts have kernels of their own, what was a prompt.
  std::int32_t reusable_length() const;

  // What is in the backend of it, to be saved; or to be filled, then adopt() says with what, and only a prompt may follow.
  link::SlotMemory memory();
  std::int32_t prompt_length() const { return prompt_length_; }  // positions before this were all computed as rows of a prompt
  void adopt(std::span<const std::int32_t> tokens, std::span<const SoftBlock> blocks, std::int32_t prompt_length);

  // Rolls back to the longest beginning of `tokens` that need not be computed again; leaves out the last token, whose logits
  // are wanted. Where prompts have kernels of their own, what was generated is computed again, so that the answer does not depend
  // on what was kept. Returns its length. `blocks`: those of the tokens; another picture in the same place is another text.
  std::int32_t keep_common_prefix(std::span<const std::int32_t> tokens, std::span<const SoftBlock> blocks = {});

  // Of the session's last run; not while a round is in flight, nor after another session's logits.
  std::int32_t next(int output = 0) const { return outputs().next(output); }
  std::span<const float> logits(int output = 0) const { return outputs().logits(output); }
  std::span<const float> hidden(int output = 0) const { return outputs().hidden(output); }

  // From now on the time of every step is added to `times`; null ends it.
  void watch(std::vector<link::StepTime>* times) { times_ = times; }

 private:
  const graph::Shape& shape() const { return program_.graph->shape; }
  // The rows of the prompt up to turn_end(); the output window is empty.
  graph::Chunk next_chunk(int most_rows);
  void add_soft(std::span<graph::Row> rows);
  void take_chunk(const graph::Chunk& chunk);
  void append(std::span<const std::int32_t> tokens);
  void run(link::Play play, const graph::Chunk& chunk, const graph::Request* request, const link::StepObserver* observe = nullptr);
  link::Seat take_seat(const Player& player);
  void leave_seat();
  static link::RunId play_in_parts(std::span<const Player> players, std::span<link::Seat> seats, const link::Watch& watch);
  Round& next_round() { return rounds_[(oldest_ + in_flight_) % rounds_.size()]; }
  void end_rounds();
  link::Outputs outputs() const;
  void check(std::span<const std::int32_t> tokens) const;
  void check_ids(std::span<const std::int32_t> tokens) const;
  void check_soft(const SoftTokens& soft, std::int32_t end) const;

  const link::Program& program_;
  link::Executor& executor_;
  const std::int32_t slot_;
  std::span<const std::int32_t> prompt_{};           // what is still to be computed of it
  SoftTokens prompt_soft_{};
  const graph::Request* prompt_request_ = nullptr;
  std::int32_t prompt_length_ = 0;
  std::int32_t bonus_ = 0;             // while rounds are in flight: the token that the oldest goes on from
  std::array<Round, 2> rounds_{};      // in flight, from oldest_ on
  int oldest_ = 0, in_flight_ = 0;
  link::RunId last_run_ = link::kNoRun;              // that left outputs, and the session's seat in it
  int last_seat_ = 0;
  std::vector<link::StepTime>* times_ = nullptr;
  std::vector<std::int32_t> tokens_;   // [length], as many reserved as the context holds
  std::vector<SoftBlock> blocks_;
  std::vector<graph::Row> rows_;       // as many as the largest chunk
  std::vector<float> soft_;            // [soft tokens of the chunk, hidden], at its largest so far
};

// The next `count` greedy tokens after a prefill or forward whose output 0 is the last token.
std::vector<std::int32_t> greedy(Session& session, std::int32_t count);

}  // namespace lapidary::decode
