// A conversation in a file: its tokens and their K/V, for a later process with the same checkpoint and the same arithmetic.
#pragma once

#include <string>

#include "engine/conversation.hpp"

namespace lapidary::engine {

// The file is there as a whole or not at all. No answer may be in progress, here and below.
void save(Conversation& conversation, const std::string& path);

// Replaces what the conversation had. A file that does not belong here, or whose beginning is damaged, changes nothing; where the K/V
// themselves are damaged, it is empty then.
void restore(Conversation& conversation, const std::string& path);

}  // namespace lapidary::engine
