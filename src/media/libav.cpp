// MP4, Matroska and AVI through ffmpeg's libraries. A file is gone through twice: to count its frames, and to decode them.
#include "media/libav_functions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

constexpr const char* kFormats = "mov,matroska,avi";
constexpr const char* kCodecs = "h264,hevc,vp8,vp9,av1,libdav1d,mpeg4,mpeg2video,mjpeg";
constexpr int kPadding = 2;  // decoders count the pixels of rows as they pad them, to 64 on some processors; check_size counts what is seen
constexpr double kUnknownRate = 24;  // frames per second of a file that does not say

struct Close {
  void operator()(AVFormatContext* format) const { libav().avformat_close_input(&format); }
  void operator()(AVCodecContext* codec) const { libav().avcodec_free_context(&codec); }
  void operator()(AVFrame* frame) const { libav().av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { libav().av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { libav().sws_freeContext(scaler); }
  void operator()(AVIOContext* io) const {
    libav().av_freep(&io->buffer);
    libav().avio_context_free(&io);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Close>;

std::string message_of(int error) {
  char text[AV_ERROR_MAX_STRING_SIZE] = "";
  libav().av_strerror(error, text, sizeof text);
  return text;
}

// The video of a file in memory, packet by packet.
class Demuxer {
 public:
  Demuxer(Bytes file, std::string_view where, const VideoLimits& limits) : file_(file), where_(where), packet_(libav().av_packet_alloc()) {
    constexpr int kBuffer = 1 << 16;
    io_.reset(libav().avio_alloc_context(static_cast<unsigned char*>(libav().av_malloc(kBuffer)), kBuffer, 0, this, read, nullptr, seek));
    AVFormatContext* format = libav().avformat_alloc_context();
    if (!packet_ || !io_ || !format) refuse(ErrorKind::out_of_memory, "no memory");
    format->pb = io_.get();
    // Nothing but this file is opened, whatever it asks for.
    format->io_open = [](AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EPERM); };
    format->format_whitelist = libav().av_strdup(kFormats);
    format->codec_whitelist = libav().av_strdup(kCodecs);
    check(libav().avformat_open_input(&format, nullptr, nullptr, nullptr));  // frees it where it fails
    format_.reset(format);
    find_stream(limits);
  }

  const AVStream& stream() const { return *stream_; }

  // Null at the end of the file.
  const AVPacket* next() {
    while (true) {
      libav().av_packet_unref(packet_.get());
      const int result = libav().av_read_frame(format_.get(), packet_.get());
      if (result == AVERROR_EOF) return nullptr;
      check(result);
      if (packet_->stream_index != stream_->index) continue;
      if (packet_->flags & AV_PKT_FLAG_CORRUPT) refuse(ErrorKind::truncated, "end of the file");
      return packet_.get();
    }
  }

  void check(int result) const {
    if (result < 0) refuse(ErrorKind::bad_data, message_of(result));
  }
  [[noreturn]] void refuse(ErrorKind kind, std::string_view got) const { media::refuse(kind, where_, "video", got); }

 private:
  void find_stream(const VideoLimits& limits) {
    std::vector<AVDictionary*> options(format_->nb_streams);
    for (AVDictionary*& of_stream : options) libav().av_dict_set_int(&of_stream, "max_pixels", kPadding * limits.pixels, 0);
    const int result = libav().avformat_find_stream_info(format_.get(), options.data());
    for (AVDictionary*& of_stream : options) libav().av_dict_free(&of_stream);
    check(result);
    const int index = libav().av_find_best_stream(format_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (index < 0) refuse(ErrorKind::bad_data, "no video");
    for (unsigned i = 0; i < format_->nb_streams; ++i)
      if (static_cast<int>(i) != index) format_->streams[i]->discard = AVDISCARD_ALL;
    stream_ = format_->streams[index];
  }

  static int read(void* user, std::uint8_t* out, int count) {
    auto& demuxer = *static_cast<Demuxer*>(user);
    const std::size_t taken = std::min(static_cast<std::size_t>(count), demuxer.file_.size() - demuxer.at_);
    if (taken == 0) return AVERROR_EOF;
    std::memcpy(out, demuxer.file_.data() + demuxer.at_, taken);
    demuxer.at_ += taken;
    return static_cast<int>(taken);
  }

  static std::int64_t seek(void* user, std::int64_t offset, int from) {
    auto& demuxer = *static_cast<Demuxer*>(user);
    const auto size = static_cast<std::int64_t>(demuxer.file_.size());
    if (from & AVSEEK_SIZE) return size;
    const std::int64_t base = (from & 3) == SEEK_SET ? 0 : (from & 3) == SEEK_CUR ? static_cast<std::int64_t>(demuxer.at_) : size;
    if (offset < -base || offset > size - base) return AVERROR(EINVAL);
    demuxer.at_ = static_cast<std::size_t>(base + offset);
    return base + offset;
  }

  Bytes file_;
  std::size_t at_ = 0;
  std::string_view where_;
  Owned<AVPacket> packet_;
  Owned<AVIOContext> io_{};
  Owned<AVFormatContext> format_{};
  AVStream* stream_ = nullptr;
};

// How many frames there will be, if each packet is one.
std::int64_t count_packets(Bytes file, std::string_view where, const VideoLimits& limits) {
  Demuxer demuxer(file, where, limits);
  std::int64_t count = 0;
  while (const AVPacket* packet = demuxer.next()) {
    if (!(packet->flags & AV_PKT_FLAG_DISCARD)) ++count;
    if (count > limits.frames)
      fail(ErrorKind::too_large, std::string(where), "frames, expected at most " + std::to_string(limits.frames) + ", got more");
  }
  return count;
}

// EXIF's number for how the camera was held.
int orientation_of(const AVStream& stream) {
#if LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102)
  const AVPacketSideData* found = libav().av_packet_side_data_get(stream.codecpar->coded_side_data, stream.codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
  const std::uint8_t* data = found ? found->data : nullptr;
#else
  const std::uint8_t* data = libav().av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, nullptr);
#endif
  if (!data) return 1;
  std::int32_t matrix[9];
  std::memcpy(matrix, data, sizeof matrix);
  const double turned = libav().av_display_rotation_get(matrix);  // degrees, counterclockwise
  if (!std::isfinite(turned)) return 1;
  constexpr int kOrientations[] = {1, 8, 3, 6};
  return kOrientations[static_cast<std::size_t>(std::lround(turned / 90) + 4) % 4];
}

class Decoder {
 public:
  Decoder(Demuxer& demuxer, std::string_view where, const VideoLimits& limits) : demuxer_(demuxer), limits_(limits), frame_(libav().av_frame_alloc()) {
    const AVCodecParameters& parameters = *demuxer.stream().codecpar;
    const AVCodec* codec = libav().avcodec_find_decoder(parameters.codec_id);
    if (!codec || ("," + std::string(kCodecs) + ",").find("," + std::string(codec->name) + ",") == std::string::npos)
      fail(ErrorKind::unsupported, std::string(where), std::string("codec, expected one of ") + kCodecs + ", got " + libav().avcodec_get_name(parameters.codec_id));
    codec_.reset(libav().avcodec_alloc_context3(codec));
    if (!codec_ || !frame_) demuxer.refuse(ErrorKind::out_of_memory, "no memory");
    demuxer.check(libav().avcodec_parameters_to_context(codec_.get(), &parameters));
    codec_->max_pixels = kPadding * limits.pixels;
    codec_->pkt_timebase = demuxer.stream().time_base;
    codec_->thread_count = 2;  // each keeps frames of its own
    demuxer.check(libav().avcodec_open2(codec_.get(), codec, nullptr));
  }

  // Calls `take` with the number of each frame, in the order they are shown. How many there were.
  std::int64_t decode(const std::function<void(std::int64_t, const AVFrame&)>& take) {
    std::int64_t count = 0;
    const auto receive = [&] {
      while (true) {
        const int result = libav().avcodec_receive_frame(codec_.get(), frame_.get());
        if (result == AVERROR(EAGAIN) || result == AVERROR_EOF) return;
        demuxer_.check(result);
        if (frame_->flags & AV_FRAME_FLAG_CORRUPT || frame_->decode_error_flags) demuxer_.refuse(ErrorKind::bad_data, "a broken frame");
        if (count >= limits_.frames) demuxer_.refuse(ErrorKind::too_large, "more frames than it says");
        take(count++, *frame_);
      }
    };
    while (const AVPacket* packet = demuxer_.next()) {
      demuxer_.check(libav().avcodec_send_packet(codec_.get(), packet));
      receive();
    }
    demuxer_.check(libav().avcodec_send_packet(codec_.get(), nullptr));
    receive();
    return count;
  }

 private:
  Demuxer& demuxer_;
  const VideoLimits& limits_;
  Owned<AVFrame> frame_;
  Owned<AVCodecContext> codec_{};
};

// In red, green and blue.
Picture picture_of(const AVFrame& frame, const Demuxer& demuxer, const VideoLimits& limits, std::string_view where) {
  check_size(frame.width, frame.height, {.pixels = limits.pixels}, where);
  Picture picture{{frame.width, frame.height}};
  const auto format = static_cast<AVPixelFormat>(frame.format);
  const Owned<SwsContext> scaler(libav().sws_getContext(frame.width, frame.height, format, frame.width, frame.height, AV_PIX_FMT_RGB24,
                                                SWS_BILINEAR | SWS_ACCURATE_RND, nullptr, nullptr, nullptr));
  if (!scaler) demuxer.refuse(ErrorKind::unsupported, "pixels of another kind");
  const int* matrix = libav().sws_getCoefficients(frame.colorspace);
  libav().sws_setColorspaceDetails(scaler.get(), matrix, frame.color_range == AVCOL_RANGE_JPEG, libav().sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
  // Rows are written somewhat beyond their end.
  constexpr std::size_t kBeyond = 64;
  const std::size_t row = static_cast<std::size_t>(frame.width) * 3, stride = (row / kBeyond + 2) * kBeyond;
  std::vector<std::uint8_t> padded(stride * static_cast<std::size_t>(frame.height));
  std::uint8_t* planes[4] = {padded.data()};
  const int strides[4] = {static_cast<int>(stride)};
  demuxer.check(libav().sws_scale(scaler.get(), frame.data, frame.linesize, 0, frame.height, planes, strides));
  picture.rgb.resize(row * static_cast<std::size_t>(frame.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(frame.height); ++y) std::memcpy(picture.rgb.data() + y * row, padded.data() + y * stride, row);
  return oriented(std::move(picture), orientation_of(demuxer.stream()));
}

double rate_of(const AVStream& stream) {
  for (const AVRational rate : {stream.avg_frame_rate, stream.r_frame_rate})
    if (rate.num > 0 && rate.den > 0) return av_q2d(rate);
  return kUnknownRate;
}

}  // namespace

std::vector<Frame> decode_libav(Bytes file, std::string_view where, std::int32_t budget, std::int32_t count, const VideoLimits& limits) {
  if (!libav().fault.empty())
    fail(ErrorKind::unsupported, std::string(where), "video, expected ffmpeg's libraries on this machine, got \"" + libav().fault + '"');
  std::int64_t all = count_packets(file, where, limits);
  for (int pass = 0; pass < 2; ++pass) {
    Demuxer demuxer(file, where, limits);
    Decoder decoder(demuxer, where, limits);
    const std::int64_t wanted = std::min<std::int64_t>(count, all);
    const double rate = rate_of(demuxer.stream());
    std::vector<Frame> frames;
    const std::int64_t found = decoder.decode([&](std::int64_t index, const AVFrame& frame) {
      const auto next = static_cast<std::int64_t>(frames.size());
      if (next == wanted || index != next * all / wanted) return;
      const Picture picture = picture_of(frame, demuxer, limits, where);
      const Size size = frames.empty() ? fitted(picture.size, budget) : frames.front().picture.size;
      frames.push_back({resized(picture, size), static_cast<double>(index) / rate});
    });
    if (found == 0) demuxer.refuse(ErrorKind::bad_data, "no frame");
    if (found == all) return frames;
    all = found;  // not every packet was a frame: again, with as many as there are
  }
  refuse(ErrorKind::bad_data, where, "video", "another number of frames each time");
}

}  // namespace lapidary::media
