// JSON Schema to an automaton over bytes. docs/json-schema.md says which part of it.
#pragma once

#include "text/grammar_automaton.hpp"
#include "text/value.hpp"

namespace lapidary::text {

// Throws `unsupported` with the path of a keyword, `wrong_type` or `bad_value` for a schema that makes no sense.
Automaton compile_schema(const Value& schema);

}  // namespace lapidary::text
