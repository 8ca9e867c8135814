// WebP through libwebp: its demuxer finds the first frame of those that move, and EXIF.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

struct Close {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

// Lives as long as the demuxer that it points into.
struct FirstFrame : WebPIterator {
  explicit FirstFrame(const WebPDemuxer* demuxer) : found(WebPDemuxGetFrame(demuxer, 1, this)) {}
  ~FirstFrame() { WebPDemuxReleaseIterator(this); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;

  bool found;
};

int orientation_of(const WebPDemuxer* demuxer) {
  WebPChunkIterator exif{};
  const int orientation = WebPDemuxGetChunk(demuxer, "EXIF", 1, &exif)
                              ? exif_orientation(std::as_bytes(std::span(exif.chunk.bytes, exif.chunk.size))) : 1;
  WebPDemuxReleaseChunkIterator(&exif);
  return orientation;
}

}  // namespace

Picture decode_webp(Bytes file, std::string_view where, const PictureLimits& limits) {
  const WebPData data{reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
  WebPDemuxState state{};
  const std::unique_ptr<WebPDemuxer, Close> demuxer(WebPDemuxPartial(&data, &state));
  if (state == WEBP_DEMUX_PARSE_ERROR) refuse(ErrorKind::bad_data, where, "WebP", "chunks that do not fit");
  if (!demuxer || state != WEBP_DEMUX_DONE) refuse(ErrorKind::truncated, where, "WebP", "end of the file");
  const Size size{static_cast<std::int32_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH)),
                  static_cast<std::int32_t>(WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT))};
  check_size(size.width, size.height, limits, where);
  const FirstFrame frame(demuxer.get());
  if (!frame.found) refuse(ErrorKind::bad_data, where, "WebP", "no picture");
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width > size.width - frame.x_offset || frame.height > size.height - frame.y_offset)
    refuse(ErrorKind::bad_data, where, "WebP", "a frame outside of the picture");
  // What the frame does not cover is see-through.
  std::vector<std::uint8_t> rgba(static_cast<std::size_t>(size.pixels()) * 4);
  const std::size_t row_bytes = static_cast<std::size_t>(size.width) * 4;
  const std::size_t first = static_cast<std::size_t>(frame.y_offset) * row_bytes + static_cast<std::size_t>(frame.x_offset) * 4;
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) refuse(ErrorKind::unsupported, where, "WebP", "another version of the library");
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgba.data() + first, static_cast<int>(row_bytes), rgba.size() - first};
  const VP8StatusCode status = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  if (status != VP8_STATUS_OK)
    refuse(status == VP8_STATUS_NOT_ENOUGH_DATA ? ErrorKind::truncated : ErrorKind::bad_data, where, "WebP",
           "status " + std::to_string(status) + " of its decoder");
  return oriented(on_white(size, rgba), orientation_of(demuxer.get()));
}

}  // namespace lapidary::media
