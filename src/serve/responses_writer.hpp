// Says in the words of OpenAI's responses API what the engine gives: items, and the events of their becoming.
#pragma once

#include "serve/api.hpp"

namespace lapidary::serve {

// What an answer repeats of its request. Null where the request said nothing and nothing is put in its place.
struct ResponseEcho {
  text::Value instructions, max_output_tokens, metadata, parallel_tool_calls, reasoning, temperature, text, tool_choice, tools, top_p;
};

std::unique_ptr<AnswerWriter> make_response_writer(const Facts& facts, ResponseEcho echo, bool streams);

}  // namespace lapidary::serve
