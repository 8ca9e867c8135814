// A grammar over bytes: states joined by edges that read a byte, read nothing, or call a rule. A rule is the state it begins
// with; every rule reads at least one byte before it calls another or ends.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lapidary::text {

using StateId = std::uint32_t;

// How deep values may nest in the text: each array or object inside another adds one.
inline constexpr std::uint32_t kMaxNesting = 64;
// The height of a state from which no end can be reached within kMaxNesting.
inline constexpr std::uint32_t kEndless = 1u << 16;
// Strings count the characters that may still come up to here; more is as good as no limit.
inline constexpr std::uint32_t kMaxPlainCharacters = 64;

struct Edge {
  enum class Kind : std::uint8_t { byte, empty, call };
  Kind kind;
  std::uint8_t low, high;  // byte: the bytes read
  std::uint8_t nesting;    // call: 1 for a value inside another, else 0
  StateId target;          // call: where to go on after it
  StateId rule;            // call
};

struct State {
  std::uint32_t first = 0;           // its edges: those that read a byte, then the others
  std::uint32_t bytes_end = 0;
  std::uint32_t end = 0;
  std::uint32_t height = kEndless;   // levels of nesting that must still be opened to reach the rule's end, at least
  std::uint8_t characters_left = 0;  // inside a string: this many plain characters may come, in any split into tokens
  bool in_string = false;            // where a character of such a string may begin
  bool ends_rule = false;
};

struct Automaton {
  std::vector<State> states;
  std::vector<Edge> edges;
  StateId start = 0;
};

class AutomatonBuilder {
 public:
  StateId state();
  void byte(StateId from, std::uint8_t low, std::uint8_t high, StateId to);
  void byte(StateId from, char c, StateId to) { byte(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to); }
  StateId text(StateId from, std::string_view bytes);  // the state after them
  void empty(StateId from, StateId to);
  void call(StateId from, StateId rule, StateId to, std::uint8_t nesting);
  void end_rule(StateId state) { states_[state].ends_rule = true; }
  void inside_string(StateId state, std::uint32_t characters_left);

  Automaton finish(StateId start);

 private:
  struct Placed {
    StateId from;
    Edge edge;
  };
  void add(StateId from, const Edge& edge);

  std::vector<State> states_;
  std::vector<Placed> edges_;
};

}  // namespace lapidary::text
