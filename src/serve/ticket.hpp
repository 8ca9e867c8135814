// A request between the thread that reads and writes sockets and the one that computes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "serve/job.hpp"

namespace lapidary::serve {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Ticket {
  // Fixed before it is handed in.
  Job job;                              // with a seed
  std::vector<engine::Prompt> prompts;  // at least one
  std::string space;                    // of the prefix cache

  // From any thread.
  std::atomic<bool> cancelled = false;
  std::atomic<bool> parked = false;     // its client does not read: no rounds until it does

  // Of pictures and sounds, decoded.
  std::size_t media_bytes() const {
    std::size_t bytes = 0;
    for (const engine::Prompt& prompt : prompts)
      for (const auto& percept : prompt.percepts) bytes += percept->picture.rgb.size() + percept->frames.size() * sizeof(float);
    return bytes;
  }
  int answers() const { return static_cast<int>(prompts.size()) * job.choices; }
};

// What becomes of a ticket, in this order: Begun, then deltas and ends of its choices, then Done.
struct Begun {
  Usage usage{};  // of the prompt
};
struct Done {
  Outcome outcome{};     // also of a cancelled one: what was generated counts
  double first_token_s = 0;  // since it was begun; 0 = there was none
};
struct News {
  std::shared_ptr<Ticket> ticket;
  std::variant<Begun, Delta, ChoiceEnd, Done, Refusal> what;  // a refusal: it is over, and it is our fault
};

}  // namespace lapidary::serve
