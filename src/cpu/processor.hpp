// The name of the processor, for reports.
#pragma once

#include <string>
#include <string_view>

namespace lapidary::cpu {

std::string processor_name();

// The same from the text of Linux's /proc/cpuinfo: the name in it or, on Arm, those of all kinds of cores.
std::string processor_name_in(std::string_view cpuinfo);

}  // namespace lapidary::cpu
