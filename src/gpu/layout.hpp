// The structs shared with the shaders, as the host sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "graph/dims.h"
#include "graph/row.hpp"

namespace lapidary::gpu::layout {

using uint = std::uint32_t;
using ulong = std::uint64_t;

#include "layout.h"

static_assert(sizeof(Row) == sizeof(graph::Row) && offsetof(Row, begin) == offsetof(graph::Row, begin));
static_assert(int{kPendingRows} == graph::kPendingRows);
static_assert(int{kRowsMax} == graph::kMaxVerifyRows && int{kSeatsMax} == graph::kMaxVerifyRows);
static_assert(sizeof(RoundState) == sizeof(graph::RoundState) && sizeof(long) == 8);
static_assert(offsetof(RoundState, emitted) == offsetof(graph::RoundState, emitted));
static_assert(offsetof(RoundState, drafts) == offsetof(graph::RoundState, drafts));
static_assert(offsetof(RoundState, accepted) == offsetof(graph::RoundState, accepted));
static_assert(sizeof(RoundResult) == sizeof(graph::RoundResult));
static_assert(offsetof(RoundResult, tokens) == offsetof(graph::RoundResult, tokens));

}  // namespace lapidary::gpu::layout
