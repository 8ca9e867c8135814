#include "media/libav_functions.hpp"

#include <dlfcn.h>

namespace lapidary::media {

namespace {

// Of the version whose headers were compiled with: by name, or where they lay then.
void* open(const std::string& library, int version) {
#ifdef __APPLE__
  const std::string file = "lib" + library + "." + std::to_string(version) + ".dylib";
#else
  const std::string file = "lib" + library + ".so." + std::to_string(version);
#endif
  void* found = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return found ? found : dlopen((LAPIDARY_LIBAV_FOLDER "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Libav::Libav() {
  void* const format = open("avformat", LIBAVFORMAT_VERSION_MAJOR);
  void* const codec = open("avcodec", LIBAVCODEC_VERSION_MAJOR);
  void* const util = open("avutil", LIBAVUTIL_VERSION_MAJOR);
  void* const scale = open("swscale", LIBSWSCALE_VERSION_MAJOR);
  if (!format || !codec || !util || !scale) {
    const char* error = dlerror();
    fault = error ? error : "an unknown fault";
    return;
  }
#define LAPIDARY_FIND(library, name)                                    \
  this->name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name)); \
  if (!this->name) fault = "no " #name;
  LAPIDARY_LIBAV_FUNCTIONS(LAPIDARY_FIND)
#undef LAPIDARY_FIND
  if (fault.empty()) av_log_set_level(AV_LOG_QUIET);
}

const Libav& libav() {
  static const Libav functions;
  return functions;
}

}  // namespace lapidary::media
