// Which arithmetic a step uses: decided at load by the numeric mode and the storage of its weights, never by the number of rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.hpp"

namespace lapidary::link {

// exact: float32 activations everywhere. fast: activations of 8 bits (q8) where weights allow, float32 elsewhere.
enum class Numeric : std::uint8_t { exact, fast };
std::string_view name_of(Numeric numeric);

// What is used unless something else is asked for: fast, but for toys (below 100 million weights), which are quick enough anyway.
Numeric usual_numeric(const graph::Graph& graph);

}  // namespace lapidary::link
