// Tool calls as the model writes them: call:NAME{key:value,...} with strings between <|"|> tokens.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "text/output_parser.hpp"

namespace lapidary::text {

// `segments` is the text of a call cut at every <|"|> token, so that the odd ones are the contents of strings.
// Forgiving: white space, JSON strings, bare words and a call that breaks off are taken as far as they make sense.
// No value when there is no name or no opening brace.
std::optional<ToolCall> parse_tool_call(std::span<const std::string> segments);

}  // namespace lapidary::text
