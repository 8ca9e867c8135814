// All readings of a text by an automaton at once. A reading is a state and a stack of states to return to; stacks that called
// the same rule at the same byte share what lies above the call, so that their number stays bounded.
#pragma once

#include <cstdint>
#include <span>
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

  // With room from the start, so that a text that goes on finds it.
  Readings();
  Readings(const Readings& other) : Readings() { *this = other; }
  Readings& operator=(const Readings&) = default;
};

// Steps byte by byte, remembering the readings after each byte so that it can go back to any of them. It can begin anew any number of
// times, in the memory that it has.
class Walk {
 public:
  explicit Walk(const Automaton& automaton);  // from the start of the text

  void begin(const Readings& from);
  // With those inside a string, or with the others; false when there are none.
  bool begin(const Readings& from, bool in_string);
  // Reads the byte after the first `depth` ones, forgetting those that followed them; false when no reading survives.
  bool step(std::size_t depth, std::uint8_t byte);
  void get(Readings& readings);  // after the last step

 private:
  struct Level {  // where the vectors end
    std::size_t tops_begin, tops, frames, returns;
    bool complete;
  };
  void begin_level(const Readings& from);
  void add(StateId state, FrameId frame);
  bool is_new(const Reading& reading);
  std::uint32_t& place_of(const Reading& reading);
  void call(const Edge& edge, FrameId frame);
  void settle();  // follows what reads no byte from all tops of the newest level

  const Automaton& automaton_;
  std::vector<Reading> tops_;
  std::vector<Frame> frames_;
  std::vector<Return> returns_;
  std::vector<Level> levels_;  // by number of bytes
  std::size_t tops_begin_ = 0, frames_begin_ = 0;  // of the level that is being made
  bool complete_ = false;
  std::vector<std::uint32_t> places_;  // a hash of the level's tops, when they are more than a few
  std::vector<FrameId> kept_;          // by frame: what it becomes in the readings
};

}  // namespace lapidary::text
