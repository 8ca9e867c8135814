// What every backend checks of a percept before its tower runs.
#pragma once

#include <string>

#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::link {

// The tower of a percept whose size it can take, and whose results have the size that is wanted of it.
inline const graph::Tower& tower_for(const Program& program, const Percept& percept, std::size_t soft, std::size_t tower) {
  const graph::Graph& graph = *program.graph;
  const bool sees = percept.sense == graph::Sense::vision;
  const std::string where = sees ? "picture" : "sound";
  const graph::Tower* found = graph.tower(percept.sense);
  if (!found)
    fail(ErrorKind::unsupported, where, std::string("model, expected one that ") + (sees ? "sees" : "hears") + ", got " + std::string(graph.name));
  const auto check = [&](bool fits, const char* what, std::int64_t expected, std::int64_t got) {
    if (!fits) fail(ErrorKind::usage, where, std::string(what) + ", expected " + std::to_string(expected) + ", got " + std::to_string(got));
  };
  const std::int64_t rows = percept.rows, columns = percept.columns, count = rows * columns;
  const std::int32_t most = program.plan.max_rows(*found);
  if (rows < 1 || columns < 1 || count > most || (!sees && columns != 1))
    fail(ErrorKind::usage, where, "rows, expected 1 to " + std::to_string(most) + ", got " + std::to_string(rows) + " x " + std::to_string(columns));
  if (sees) {
    const graph::VisionShape& v = found->vision;
    if (rows % v.pool != 0 || columns % v.pool != 0 || rows > v.positions || columns > v.positions)
      fail(ErrorKind::usage, where, "patches, expected multiples of " + std::to_string(v.pool) + " up to " + std::to_string(v.positions) +
                                        ", got " + std::to_string(rows) + " x " + std::to_string(columns));
  }
  check(static_cast<std::int64_t>(percept.values.size()) == count * found->input_width, "values", count * found->input_width,
        static_cast<std::int64_t>(percept.values.size()));
  const std::int64_t tokens = found->soft_tokens(percept.rows, percept.columns);
  check(static_cast<std::int64_t>(soft) == tokens * found->soft_width, "soft tokens", tokens * found->soft_width, static_cast<std::int64_t>(soft));
  check(tower == 0 || static_cast<std::int64_t>(tower) == tokens * found->tower_width, "tower rows", tokens * found->tower_width,
        static_cast<std::int64_t>(tower));
  return *found;
}

// Of the steps of a tower with this row set.
inline std::int32_t rows_of(const graph::Tower& tower, graph::RowSet set, const Percept& percept) {
  switch (set) {
    case graph::RowSet::halved: return graph::Tower::halved(percept.rows);
    case graph::RowSet::soft: return tower.soft_tokens(percept.rows, percept.columns);
    case graph::RowSet::distances: return tower.audio.window;
    default: return percept.rows * percept.columns;
  }
}

}  // namespace lapidary::link
