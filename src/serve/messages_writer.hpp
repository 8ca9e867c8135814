// Says in the words of Anthropic's messages API what the engine gives: blocks, and the events of their becoming.
#pragma once

#include "serve/api.hpp"

namespace lapidary::serve {

std::unique_ptr<AnswerWriter> make_message_writer(const Facts& facts, bool streams);

}  // namespace lapidary::serve
