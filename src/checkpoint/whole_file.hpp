// Writing a file as a whole or not at all.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace lapidary {

// `write` fills a file of a temporary name beside `path`, which gets its own when it is complete.
void write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace lapidary
