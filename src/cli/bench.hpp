// lapidary bench: what its measurements share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/model.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

using engine::Clock;
using engine::seconds_since;

// Token ids do not matter for speed; these spread over the vocabulary.
std::vector<std::int32_t> some_tokens(int count, int vocab);

// "Neoverse-N1, instructions neon (--cpu)", and on a line of its own "models/pebble, graph pebble, 2 threads, fast"
std::string describe(const link::Program& program, const ModelFlags& flags);

// What a line of JSON says of the machine.
void add_machine(text::Value::Object& line, const link::Program& program, const ModelFlags& flags);

// Drafts that are right with given probabilities, and whose they are.
struct DraftBenchFlags {
  DraftFlags draft{.options = {.kind = engine::DraftKind::lookup}};
  std::vector<double> acceptances;  // empty = not asked for
  int text_tokens = 2000;

  CLI::Option* add_to(CLI::App& command);  // returns the option that asks for it
};

// What the choice of how much to draft makes of such drafts, against plain decoding and every fixed number of drafts.
void bench_drafts(ModelFlags model, const DraftBenchFlags& flags, int depth, bool json);

// A picture and a sound through their towers.
void bench_towers(ModelFlags model, bool json);

}  // namespace lapidary::cli
