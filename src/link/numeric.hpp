// Which arithmetic a step uses: decided at load by the numeric mode and the storage of its weights, never by the number of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/graph.hpp"
#include "link/weight.hpp"

namespace lapidary::link {

// exact: float32 activations everywhere. fast: activations of 8 bits (q8) where weights allow, float32 elsewhere.
enum class Numeric : std::uint8_t { exact, fast };
std::string_view name_of(Numeric numeric);

// What is used unless something else is asked for: fast, but for toys (below 100 million weights), which are quick enough anyway.
Numeric usual_numeric(const graph::Graph& graph);

// Weights that are integers of up to 8 bits times a scale: affine ones with bfloat16 scales, mxfp4, nvfp4.
bool has_q8(const Matrix& matrix);

// A GPU reads numbers at multiples of their own size only: packed values as words of 4 bytes, plain ones and scales as their type.
bool is_aligned(const Matrix& matrix);

// Does the op multiply by matrices whose activations may be quantised?
bool multiplies(graph::Op op);

// The fast mode reads scales and biases interleaved, for so many rows together: a copy of uint32, one for each group of a row, for
// one matrix or one expert.
inline constexpr int kScaleRows = 4;
std::size_t scale_words(const Matrix& matrix);

}  // namespace lapidary::link
