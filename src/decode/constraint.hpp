// What limits the next token, row by row: grammars for the answer and for each call, which calls there may be, how long a thought may
// become. It follows the output through thoughts, text and calls as text::OutputParser reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "text/grammar.hpp"

namespace lapidary::decode {

// The tokens around a part of the output; -1 where the vocabulary has none.
struct Markers {
  std::int32_t open = -1, close = -1;
};

enum class Calls : std::uint8_t {
  automatic,  // as the model likes
  none,       // none can begin
  required,   // at least one, and nothing but a thought before it
};

struct Rules {
  std::shared_ptr<const text::Grammar> answer_grammar{};  // that the text must fit; null = any text
  std::shared_ptr<const text::Grammar> call_grammar{};    // that each call must fit; null = as the model writes it
  Markers thought{}, call{};
  Calls calls = Calls::automatic;
  bool single_call = false;  // the output ends with the first call
  bool may_think = false;    // where text is not free: the output may begin with a thought
  bool in_thought = false;   // the prompt has opened one
  // After so many ids behind its header a thought is closed by force.
  std::optional<int> thought_ids{};
  std::vector<std::int32_t> thought_header{}, thought_closing{};  // the ids behind the opening marker; those that close it, marker and all

  bool text_is_free() const { return !answer_grammar && calls != Calls::required; }
  // Where the text is not free, calls must fit a grammar too.
  bool may_call() const { return calls != Calls::none && (text_is_free() || call_grammar); }
};

class Constraint {
 public:
  explicit Constraint(Rules rules);

  void fill_mask(text::TokenMask mask, std::span<const std::int32_t> stop_ids) const;
  // Takes a token; false and no change where it is not allowed.
  bool accept(std::int32_t token);
  // May the output end here?
  bool complete() const;
  // Nothing may follow, not even a stop token.
  bool ended() const { return phase_ == Phase::end; }

 private:
  enum class Phase : std::uint8_t { start, answer, text, thought, closing, call, after_call, end };

  void begin_thought(std::size_t header_ids);
  void end_thought();
  void count_in_thought(std::int32_t token);
  bool begin_call();
  void end_call();

  std::shared_ptr<const Rules> rules_;
  std::optional<text::GrammarState> call_begin_;  // every call starts from it
  std::optional<text::GrammarState> state_;       // of the answer, then of the call
  Phase phase_;
  bool may_think_;
  std::size_t header_ids_ = 0, closing_ids_ = 0;  // of the thought, so far
  int ids_left_ = 0;                              // of the thought
};

}  // namespace lapidary::decode
