// Writing what the device is given into a document.
#pragma once

#include <string>

#include "metal/executor.hpp"
#include "metal/gpu.hpp"

namespace lapidary::metal {

// Whether it can be done at all, before a model is loaded for it.
void check_capture(const CaptureOptions& options);

// What the device is given while it lives is in the document.
class Capture {
 public:
  Capture(const Gpu& gpu, const std::string& path);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
};

}  // namespace lapidary::metal
