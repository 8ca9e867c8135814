// --cpu: the set of instructions that the processor runs a model with, and why it is this one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cpu/instructions.hpp"
#include "link/link.hpp"
#include "text/value.hpp"

namespace CLI {
class App;
}

namespace lapidary::cli {

struct InstructionsFlag {
  std::span<const cpu::Instructions> all = cpu::all_instructions();
  const cpu::Instructions* asked = nullptr;  // null = the best that this processor has

  void add_to(CLI::App& command);
  void check(const link::Backend& backend) const;  // fails where they cannot be had
  const cpu::Instructions& taken() const { return asked ? *asked : cpu::best_instructions(all); }

  struct Taken {
    std::string_view name;
    std::string because;

    std::string text() const { return std::string(name) + " (" + because + ")"; }  // "neon (--cpu)"
    text::Value json() const { return text::Value::Object{{"name", name}, {"because", because}}; }
  };
  Taken taken_by(link::Numeric numeric) const;  // what a model runs with
};

}  // namespace lapidary::cli
