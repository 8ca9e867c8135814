// White space as Python's str.strip sees it, in UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace lapidary::text {

std::size_t whitespace_at_front(std::string_view text);  // bytes of the run
std::size_t whitespace_at_back(std::string_view text);

std::string_view strip(std::string_view text);

}  // namespace lapidary::text
