// All readings of a text by an automaton at once. A reading is a state and a stack of states to return to; stacks that called
// the same rule at the same byte share what lies above the call, so that their number stays bounded.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "text/grammar_automaton.hpp"

namespace lapidary::text {

using FrameId = std::uint32_t;

struct Reading {
  StateId state;
  FrameId frame;
  bool operator==(const Reading&) const = default;
};

// A call in progress: where it returns to, a list since several readings may have made it. Frame 0 is the outermost rule.
struct Frame {
  StateId rule;
  std::uint32_t returns;  // first of the list
  std::uint32_t depth;    // levels of nesting
};

struct Return {
  Reading to;  // its frame is always older than the one that returns
  std::uint32_t next;
};

struct Readings {
  std::vector<Reading> tops;  // at states that read a byte, or inside a string
  std::vector<Frame> frames;
  std::vector<Return> returns;
  bool complete = false;  // the text may end here
};

// Steps byte by byte, remembering the readings after each byte so that it can go back to any of them.
class Walk {
 public:
  explicit Walk(const Automaton& automaton);  // from the start of the text
  Walk(const Automaton& automaton, const Readings& from, std::span<const Reading> tops);

  // Reads the byte after the first `depth` ones, forgetting those that followed them; false when no reading survives.
  bool step(std::size_t depth, std::uint8_t byte);
  Readings readings() const;  // after the last step

 private:
  struct Level {  // where the vectors end
    std::size_t tops_begin, tops, frames, returns;
    bool complete;
  };
  void add(StateId state, FrameId frame);
  bool is_new(const Reading& reading);
  void call(const Edge& edge, FrameId frame);
  void settle();  // follows what reads no byte from all tops of the newest level

  const Automaton& automaton_;
  std::vector<Reading> tops_;
  std::vector<Frame> frames_;
  std::vector<Return> returns_;
  std::vector<Level> levels_;  // by number of bytes
  std::size_t tops_begin_ = 0, frames_begin_ = 0;  // of the level that is being made
  bool complete_ = false;
  std::unordered_set<std::uint64_t> many_;  // the readings of the level, when they are more than a few
};

}  // namespace lapidary::text
