// JSON Schema to an automaton over bytes: JSON, or calls of tools. docs/json-schema.md says which part of it.
#pragma once

#include "text/grammar_automaton.hpp"
#include "text/value.hpp"

namespace lapidary::text {

// Throws `unsupported` with the path of a keyword, `wrong_type` or `bad_value` for a schema that makes no sense.
Automaton compile_schema(const Value& schema);
// Calls in the model's notation of tools with schemas of their parameters; a tool without takes no arguments.
Automaton compile_calls(const Value& tools);

}  // namespace lapidary::text
