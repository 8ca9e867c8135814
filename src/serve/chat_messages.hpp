// The conversation in a chat completion's body, as the chat template takes it.
#pragma once

#include "serve/shared_fields.hpp"

namespace lapidary::serve {

// messages, reasoning_effort, chat_template_kwargs, continue_final_message. Its tools are put in by whoever reads them.
ChatPrompt read_chat_prompt(Fields& body, const Facts& facts);
Tools read_chat_tools(Fields& body);

}  // namespace lapidary::serve
