// What answers are made of: server-sent events, ids, and the objects that several APIs share.
#pragma once

#include <string>
#include <string_view>

#include "serve/api.hpp"

namespace lapidary::serve {

// "data: {...}" and a blank line; with a type, an "event:" line before it.
std::string event(const text::Value& data);
std::string event(std::string_view type, const text::Value& data);
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

// OpenAI's, and the extension with llama.cpp's names.
text::Value usage_object(const Usage& usage);
text::Value timings_object(const Outcome& outcome);
// As requests give it: with a sign.
inline std::int64_t signed_seed(std::uint64_t seed) { return static_cast<std::int64_t>(seed); }

// Bytes of a token as text: what is no UTF-8 as U+FFFD.
std::string valid_text(std::string_view bytes);
double logprob_number(float logprob);  // minus infinity is -9999
text::Value bytes_list(std::string_view bytes);
// {"token","logprob","bytes","top_logprobs":[...]}
text::Value logprob_object(const LogprobEntry& entry);

}  // namespace lapidary::serve
