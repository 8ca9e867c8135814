#include "metal/capture.hpp"

#include <Metal/Metal.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/foundation.hpp"

namespace softmetal {
namespace {

struct CaptureDescriptor : Implements<CaptureDescriptor, MTL::CaptureDescriptor> {
  Ref<NS::Object> object;
  Ref<NS::URL> url;
  MTL::CaptureDestination destination = MTL::CaptureDestinationDeveloperTools;

  void set_object(NS::Object* captured) { object = captured; }
};

struct CaptureManager : Implements<CaptureManager, MTL::CaptureManager> {
  bool capturing = false;

  static MTL::CaptureManager* shared() {
    static CaptureManager* const only = new CaptureManager;
    return api(only);
  }

  // As in Metal: a program that was not started for it cannot capture.
  bool supports(MTL::CaptureDestination destination) {
    const char* enabled = std::getenv("MTL_CAPTURE_ENABLED");
    return destination == MTL::CaptureDestinationGPUTraceDocument && enabled && std::string(enabled) == "1";
  }

  bool start(const MTL::CaptureDescriptor* descriptor, NS::Error** error) {
    const auto refuse = [&](MTL::CaptureError code, const std::string& text) {
      set_error(error, code, text);
      return false;
    };
    const CaptureDescriptor& wanted = *as<CaptureDescriptor>(descriptor);
    if (capturing) return refuse(MTL::CaptureErrorAlreadyCapturing, "a capture is going on already");
    if (!supports(wanted.destination))
      return refuse(MTL::CaptureErrorNotSupported, "captures need MTL_CAPTURE_ENABLED=1, and go to a document");
    if (!wanted.object || !wanted.url)
      return refuse(MTL::CaptureErrorInvalidDescriptor, "a capture needs an object and a URL");
    const std::string& path = as<Url>(wanted.url.get())->path;
    if (std::filesystem::exists(path)) return refuse(MTL::CaptureErrorInvalidDescriptor, path + " exists already");
    std::ofstream document(path);
    document << "softmetal capture\n";
    document.close();
    if (!document) return refuse(MTL::CaptureErrorInvalidDescriptor, "cannot write " + path);
    capturing = true;
    return true;
  }

  void stop() {
    if (!capturing) fail("stopCapture without a capture");
    capturing = false;
  }
};

}  // namespace

void register_capture() {
  ClassOf<CaptureDescriptor>("MTLCaptureDescriptor")
      .allocatable()
      .getter<&CaptureDescriptor::object>(&MTL::CaptureDescriptor::captureObject, "captureObject")
      .method<&CaptureDescriptor::set_object>(&MTL::CaptureDescriptor::setCaptureObject, "setCaptureObject:")
      .getter<&CaptureDescriptor::url>(&MTL::CaptureDescriptor::outputURL, "outputURL")
      .setter<&CaptureDescriptor::url>(&MTL::CaptureDescriptor::setOutputURL, "setOutputURL:")
      .getter<&CaptureDescriptor::destination>(&MTL::CaptureDescriptor::destination, "destination")
      .setter<&CaptureDescriptor::destination>(&MTL::CaptureDescriptor::setDestination, "setDestination:");
  ClassOf<CaptureManager>("MTLCaptureManager")
      .class_method<&CaptureManager::shared>(&MTL::CaptureManager::sharedCaptureManager, "sharedCaptureManager")
      .method<&CaptureManager::supports>(&MTL::CaptureManager::supportsDestination, "supportsDestination:")
      .method<&CaptureManager::start>(&MTL::CaptureManager::startCapture, "startCaptureWithDescriptor:error:")
      .method<&CaptureManager::stop>(&MTL::CaptureManager::stopCapture, "stopCapture")
      .getter<&CaptureManager::capturing>(&MTL::CaptureManager::isCapturing, "isCapturing");
}

}  // namespace softmetal
