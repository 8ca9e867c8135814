#include "media/libav_functions.hpp"

#include "checkpoint/open_library.hpp"

namespace lapidary::media {

Libav::Libav() {
  void* const format = open_library("avformat", LIBAVFORMAT_VERSION_MAJOR, LAPIDARY_LIBAV_FOLDER);
  void* const codec = open_library("avcodec", LIBAVCODEC_VERSION_MAJOR, LAPIDARY_LIBAV_FOLDER);
  void* const util = open_library("avutil", LIBAVUTIL_VERSION_MAJOR, LAPIDARY_LIBAV_FOLDER);
  void* const scale = open_library("swscale", LIBSWSCALE_VERSION_MAJOR, LAPIDARY_LIBAV_FOLDER);
  if (!format || !codec || !util || !scale) {
    fault = library_fault();
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
