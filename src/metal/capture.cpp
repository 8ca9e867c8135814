#include "metal/capture.hpp"

#include <filesystem>

#include "checkpoint/error.hpp"

namespace lapidary::metal {

void check_capture(const CaptureOptions& options) {
  if (options.path.empty()) return;
  const Pool pool;
  if (!MTL::CaptureManager::sharedCaptureManager()->supportsDestination(MTL::CaptureDestinationGPUTraceDocument))
    fail(ErrorKind::usage, "--capture", "expected MTL_CAPTURE_ENABLED=1 in the environment of the program, got none");
  if (!options.path.ends_with(".gputrace"))
    fail(ErrorKind::usage, "--capture", "expected a name that ends in .gputrace, got '" + options.path + "'");
  if (std::filesystem::exists(options.path))
    fail(ErrorKind::usage, "--capture", "expected a new file, got " + options.path + ", which exists");
}

Capture::Capture(const Gpu& gpu, const std::string& path) {
  const Pool pool;
  const auto descriptor = NS::TransferPtr(MTL::CaptureDescriptor::alloc()->init());
  descriptor->setCaptureObject(gpu.device());
  descriptor->setDestination(MTL::CaptureDestinationGPUTraceDocument);
  descriptor->setOutputURL(NS::URL::fileURLWithPath(text_of(path)));
  NS::Error* error = nullptr;
  if (!MTL::CaptureManager::sharedCaptureManager()->startCapture(descriptor.get(), &error))
    fail(ErrorKind::io, "--capture", path + ", expected a capture to begin, got: " + message_of(error));
}

Capture::~Capture() {
  const Pool pool;
  MTL::CaptureManager::sharedCaptureManager()->stopCapture();
}

}  // namespace lapidary::metal
