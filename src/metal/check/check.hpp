// Does the device at hand run the kernels as they are defined? Every kernel of the library on small data: near its
// definition in double precision, every row the same to the bit in runs of 1 to 8 rows, a replay the same as encoding.
#pragma once

#include <functional>
#include <string>

#include "metal/gpu.hpp"

namespace lapidary::metal {

struct CheckResult {
  std::string name;
  double error = 0;         // the largest; 1 is what is allowed
  double microseconds = 0;  // of one row on the device
  std::string problem;      // empty: all is well
};

void check_kernels(Gpu& gpu, const std::function<void(const CheckResult&)>& report);

}  // namespace lapidary::metal
