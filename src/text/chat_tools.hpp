// Tool declarations, as they stand in the system turn.
#pragma once

#include <string>

#include "text/chat_format.hpp"

namespace lapidary::text {

// tool: {function: {name, description?, parameters?, response?}}; `path` names it in errors.
// declaration:NAME{description:..,parameters:{properties:{..},required:[..],type:..},response:{..}}
void write_declaration(PromptWriter& out, const Value& tool, const std::string& path, Revision revision);

}  // namespace lapidary::text
