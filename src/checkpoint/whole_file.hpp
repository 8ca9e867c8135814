// Writing a file as a whole or not at all.
#pragma once

#include <functional>
#include <ostream>
#include <string>

namespace lapidary {

// `write` fills a file of a temporary name, which takes the place of the regular file that `path` names or leads to when it is
// complete. What is no regular file, a device or a pipe, is written straight into.
void write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write);

}  // namespace lapidary
