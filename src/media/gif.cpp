// GIF through giflib: the first picture of those that move.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

int read(GifFileType* gif, GifByteType* out, int count) {
  Bytes& left = *static_cast<Bytes*>(gif->UserData);
  const std::size_t taken = std::min(static_cast<std::size_t>(count), left.size());
  std::memcpy(out, left.data(), taken);
  left = left.subspan(taken);
  return static_cast<int>(taken);
}

class Reader {
 public:
  Reader(Bytes file, std::string_view where) : left_(file), where_(where) {
    int error = 0;
    gif_ = DGifOpen(&left_, read, &error);
    if (!gif_) refuse(error);
  }
  ~Reader() { DGifCloseFile(gif_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  GifFileType& gif() { return *gif_; }
  void expect(int result) {
    if (result == GIF_ERROR) refuse(gif_->Error);
  }

  // Goes on to the first picture.
  void find_picture() {
    for (GifRecordType record = UNDEFINED_RECORD_TYPE; record != IMAGE_DESC_RECORD_TYPE;) {
      expect(DGifGetRecordType(gif_, &record));
      if (record == EXTENSION_RECORD_TYPE) skip_extension();
      else if (record != IMAGE_DESC_RECORD_TYPE) media::refuse(ErrorKind::bad_data, where_, "GIF", "no picture");
    }
    expect(DGifGetImageDesc(gif_));
  }

  int transparent() const { return transparent_; }  // an index, or NO_TRANSPARENT_COLOR

 private:
  void skip_extension() {
    int code = 0;
    GifByteType* block = nullptr;  // its length, then its bytes
    GraphicsControlBlock control{};
    for (expect(DGifGetExtension(gif_, &code, &block)); block; expect(DGifGetExtensionNext(gif_, &block)))
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK)
        transparent_ = control.TransparentColor;
  }

  [[noreturn]] void refuse(int error) const {
    const char* fault = GifErrorString(error);
    media::refuse(left_.empty() ? ErrorKind::truncated : ErrorKind::bad_data, where_, "GIF", fault ? fault : "an unknown fault");
  }

  Bytes left_;
  std::string_view where_;
  GifFileType* gif_ = nullptr;
  int transparent_ = NO_TRANSPARENT_COLOR;
};

}  // namespace

Picture decode_gif(Bytes file, std::string_view where, const PictureLimits& limits) {
  Reader reader(file, where);
  GifFileType& gif = reader.gif();
  check_size(gif.SWidth, gif.SHeight, limits, where);
  reader.find_picture();
  const GifImageDesc& frame = gif.Image;
  const Size size{gif.SWidth, gif.SHeight};
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 1 || frame.Height < 1 || frame.Width > size.width - frame.Left ||
      frame.Height > size.height - frame.Top)
    refuse(ErrorKind::bad_data, where, "GIF", "a frame outside of the picture");
  const ColorMapObject* colours = frame.ColorMap ? frame.ColorMap : gif.SColorMap;
  if (!colours) refuse(ErrorKind::bad_data, where, "GIF", "no colours");
  // What the frame does not cover is see-through: white.
  Picture picture{size};
  picture.rgb.assign(static_cast<std::size_t>(size.pixels()) * 3, 255);
  std::vector<GifPixelType> row(static_cast<std::size_t>(frame.Width));
  // Rows lie one after the other, or every eighth first, then those between them.
  struct Pass { int first, step; };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}}, kPlain[] = {{0, 1}};
  for (const Pass& pass : frame.Interlace ? std::span<const Pass>(kInterlaced) : std::span<const Pass>(kPlain))
    for (int y = pass.first; y < frame.Height; y += pass.step) {
      reader.expect(DGifGetLine(&gif, row.data(), frame.Width));
      std::uint8_t* to = picture.rgb.data() + (static_cast<std::size_t>(frame.Top + y) * static_cast<std::size_t>(size.width) +
                                               static_cast<std::size_t>(frame.Left)) * 3;
      for (const GifPixelType index : row) {
        if (index != reader.transparent() && index < colours->ColorCount) {
          const GifColorType& colour = colours->Colors[index];
          to[0] = colour.Red, to[1] = colour.Green, to[2] = colour.Blue;
        }
        to += 3;
      }
    }
  return picture;
}

}  // namespace lapidary::media
