// JSON of strangers: a request's body, and JSON inside its texts.
#pragma once

#include <string>
#include <string_view>

#include "text/value.hpp"

namespace lapidary::serve {

// One object: UTF-8, at most 64 levels, numbers finite, no lone surrogates, nothing behind it; of a repeated key the last counts.
// Throws a Refusal otherwise.
text::Value parse_body(std::string_view json);
// Such an object in a text of a request; `path` is the text's.
text::Value parse_object(std::string_view json, const std::string& path);

}  // namespace lapidary::serve
