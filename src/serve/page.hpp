// The chat page: one file without other resources, which the program carries.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lapidary::serve {

std::string_view page_html();

// Its Content-Security-Policy: its own script and style by their hashes, pictures that it holds itself, this server, and nothing else.
std::string page_policy();

// What goes with it: the policy, and that no one frames it, guesses its type or learns where it was read.
std::vector<std::pair<std::string, std::string>> page_fields();

}  // namespace lapidary::serve
