#include "cli/instructions.hpp"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>

#include "checkpoint/error.hpp"
#include "cli/flags.hpp"
#include "cpu/backend.hpp"

namespace lapidary::cli {

void InstructionsFlag::add_to(CLI::App& command) {
  std::vector<std::string> names;
  for (const cpu::Instructions& one : all) names.emplace_back(one.name);
  add_choice(command, "--cpu", names, [this](const std::string& name) { asked = &*std::ranges::find(all, name, &cpu::Instructions::name); },
             "instructions for kernels on the CPU (default: the last of these that the processor has)");
}

void InstructionsFlag::check(const link::Backend& backend) const {
  if (!asked) return;
  if (&backend != &cpu::kBackend)
    fail(ErrorKind::usage, "--cpu", "expected --backend " + std::string(cpu::kBackend.name) + ", got " + std::string(backend.name));
  if (asked->here) return;
  std::string names;
  for (const cpu::Instructions& one : all)
    if (one.here) names += (names.empty() ? "" : ", ") + std::string(one.name);
  fail(ErrorKind::usage, "--cpu", "expected instructions this processor has (" + names + "), got " + std::string(asked->name) +
                                      ", which needs " + std::string(asked->needs));
}

InstructionsFlag::Taken InstructionsFlag::taken_by(link::Numeric numeric) const {
  const bool exact = numeric == link::Numeric::exact;
  std::vector<const cpu::Instructions*> sets;  // of which each has kernels of its own in this mode
  for (const cpu::Instructions& one : all)
    if (!exact || sets.empty() || sets.back()->float_products != one.float_products) sets.push_back(&one);
  const auto next = std::ranges::upper_bound(sets, &taken());
  const std::string_view name = next[-1]->name;
  if (asked) return {name, "--cpu"};
  if (next == sets.end()) return {name, exact ? "the exact mode has no others" : "the fastest there are"};
  return {name, std::string((*next)->name) + " needs " + std::string((*next)->needs) + ", which this processor does not have"};
}

}  // namespace lapidary::cli
