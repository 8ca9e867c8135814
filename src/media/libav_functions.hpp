// ffmpeg's libraries, opened when the first video comes: a hundred others come with them, and every start would take 50 ms longer.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libswscale/swscale.h>
}

#include <string>

namespace lapidary::media {

// Where a display matrix is found has changed.
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
#define LAPIDARY_LIBAV_SIDE_DATA(of) of(codec, av_packet_side_data_get)
#else
#define LAPIDARY_LIBAV_SIDE_DATA(of) of(format, av_stream_get_side_data)
#endif

#define LAPIDARY_LIBAV_FUNCTIONS(of) \
  of(format, av_find_best_stream) of(format, av_read_frame) of(format, avformat_alloc_context) of(format, avformat_close_input) \
  of(format, avformat_find_stream_info) of(format, avformat_open_input) of(format, avio_alloc_context) of(format, avio_context_free) \
  of(codec, av_packet_alloc) of(codec, av_packet_free) of(codec, av_packet_unref) of(codec, avcodec_alloc_context3) \
  of(codec, avcodec_find_decoder) of(codec, avcodec_free_context) of(codec, avcodec_get_name) of(codec, avcodec_open2) \
  of(codec, avcodec_parameters_to_context) of(codec, avcodec_receive_frame) of(codec, avcodec_send_packet) \
  of(util, av_dict_free) of(util, av_dict_set_int) of(util, av_display_rotation_get) of(util, av_frame_alloc) of(util, av_frame_free) \
  of(util, av_freep) of(util, av_log_set_level) of(util, av_malloc) of(util, av_strdup) of(util, av_strerror) \
  of(scale, sws_freeContext) of(scale, sws_getCoefficients) of(scale, sws_getContext) of(scale, sws_scale) of(scale, sws_setColorspaceDetails) \
  LAPIDARY_LIBAV_SIDE_DATA(of)

// The functions that are used, by their names.
struct Libav {
#define LAPIDARY_MEMBER(library, name) decltype(&::name) name = nullptr;
  LAPIDARY_LIBAV_FUNCTIONS(LAPIDARY_MEMBER)
#undef LAPIDARY_MEMBER
  std::string fault{};  // why they are not there; empty: they are

  Libav();
};

const Libav& libav();

}  // namespace lapidary::media
