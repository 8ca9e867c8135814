// JSON as rules of an automaton: each call writes one kind of value at a given state, which becomes the rule of that value.
// The same values can be written in the notation of tool calls.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_automaton.hpp"
#include "text/pattern.hpp"
#include "text/value.hpp"

namespace lapidary::text {

// Whole numbers have at most this many digits, so that every reader takes them.
inline constexpr int kMaxDigits = 18;
inline constexpr std::int64_t kMaxInteger = 999'999'999'999'999'999;

inline constexpr std::int64_t kMaxMultipleOf = 1000;
inline constexpr std::size_t kMaxPatternStates = 20'000;

enum class Notation : std::uint8_t {
  json,
  call,  // as the model writes calls: bare keys in dictionary order, raw strings between <|"|> tokens, no white space
};

// Stands for the token <|"|>: a byte that UTF-8 never has.
inline constexpr char kQuoteByte = '\xff';

struct ArrayRule {
  std::vector<StateId> prefix;  // rules of the first elements
  std::optional<StateId> rest;  // rule of the elements after them; none: there are none
  std::uint64_t least = 0;
  std::optional<std::uint64_t> most{};
};

struct PropertyRule {
  std::string name;
  StateId value;
  bool required;
};

struct ObjectRule {
  std::vector<PropertyRule> properties;  // JSON: in the order in which they are written
  std::optional<StateId> extra;          // rule of the values of further properties; none: there are none
};

class JsonRules {
 public:
  JsonRules(AutomatonBuilder& out, Notation notation);

  StateId any();  // the rule of any value

  void null(StateId at) { texts(at, std::array<std::string, 1>{"null"}); }
  void boolean(StateId at) { texts(at, std::array<std::string, 2>{"false", "true"}); }
  void integer(StateId at, std::int64_t least, std::int64_t most);  // between -kMaxInteger and kMaxInteger
  void number(StateId at);
  void string(StateId at, std::uint64_t least, std::optional<std::uint64_t> most);  // characters
  // False where it would take more states than kMaxPatternStates.
  [[nodiscard]] bool string_like(StateId at, const Pattern& pattern);
  void multiple(StateId at, std::int64_t of);  // of whole numbers, up to kMaxMultipleOf
  void texts(StateId at, std::span<const std::string> alternatives);                // written values
  void array(StateId at, const ArrayRule& rule);
  void object(StateId at, const ObjectRule& rule);

  // A call has no way to write some keys: "", and those with what ends a key or a value.
  bool can_write_key(std::string_view key) const;
  bool can_write(const Value& value) const;
  std::string written(const Value& value) const;  // with kQuoteByte for <|"|>

 private:
  using CharacterStates = std::array<StateId, 8>;  // by Utf8Place, see grammar_json.cpp

  enum class Escapes : bool { no, yes };
  void characters(StateId from, StateId to, const CharacterSet& set);
  bool match(StateId from, StateId to, const Pattern& pattern, std::size_t& states);
  CharacterStates character(StateId from, StateId to, Escapes escapes);
  void escape(StateId from, StateId to);
  void white_space(StateId from, StateId to);  // or nothing
  void value_after_colon(StateId from, StateId value, StateId to);
  void digits(StateId from, int least, int most, StateId to);
  void natural(StateId from, std::int64_t least, std::int64_t most);
  void same_length(StateId from, const std::string& least, const std::string& most);

  // Texts that share their beginnings, each followed by its own state.
  struct Words {
    std::vector<std::string> texts;
    std::vector<StateId> ends;
    std::vector<StateId> tails{};            // the state after a text's first byte; those after further bytes follow it
    std::vector<std::uint32_t> ascending{};  // indices in the order of the texts
  };
  void prepare(Words& words);
  void one_of(StateId from, const Words& words, std::vector<std::uint32_t> choice);
  void extra_key(StateId from, std::span<const std::string> except, StateId to);

  AutomatonBuilder& out_;
  Notation notation_;
  char quote_;           // around strings
  StateId end_;          // ends any rule
  StateId white_space_;  // rule
  StateId character_;    // rule: one character of a string
  std::optional<StateId> any_;
};

}  // namespace lapidary::text
