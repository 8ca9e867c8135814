// Whether a drafter fits a target, from their configs alone.
#pragma once

#include <cstdint>
#include <string>

#include "graph/shape.hpp"

namespace lapidary {

// The layer of the target whose K/V an assistant's layers of this kind read: the last one that owns its K/V. -1: none.
std::int32_t drafter_source(const graph::Shape& target, graph::LayerKind kind);

// Refuses a pair that does not fit; `where` names the drafter.
void check_pair(const graph::Shape& target, const graph::AssistantShape& assistant, const std::string& where);
void check_pair(const graph::Shape& target, const graph::DFlashShape& dflash, const std::string& where);

}  // namespace lapidary
