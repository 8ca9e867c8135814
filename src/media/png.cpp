// PNG through libpng. That leaves by longjmp when it fails: what it is asked to do holds nothing that would have to be destroyed.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

class Reader {
 public:
  explicit Reader(Bytes file) : left_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) png_destroy_read_struct(&png_, nullptr, nullptr);
  }
  ~Reader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  png_structp png() { return png_; }
  png_infop info() { return info_; }

  // Is `ask` done to the end? If not, fault() says why.
  template <class Ask>
  bool does(Ask ask) {
    if (!png_) return std::strcpy(error_, "no memory"), false;
    if (setjmp(png_jmpbuf(png_))) return false;
    ask();
    return true;
  }

  static void read(png_structp png, png_bytep out, std::size_t count) {
    auto& reader = *static_cast<Reader*>(png_get_io_ptr(png));
    if (count > reader.left_.size()) {
      reader.ended_ = true;
      png_error(png, "end of the file");
    }
    std::memcpy(out, reader.left_.data(), count);
    reader.left_ = reader.left_.subspan(count);
  }

  ErrorKind kind() const {
    return ended_ || std::string_view(error_).starts_with("Not enough") ? ErrorKind::truncated : ErrorKind::bad_data;
  }
  std::string fault() const { return std::string(error_) + (warning_[0] ? std::string(": ") + warning_ : ""); }

 private:
  static void keep(char (&to)[128], const char* text) {
    std::strncpy(to, text, sizeof to - 1);
    to[sizeof to - 1] = '\0';
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    keep(static_cast<Reader*>(png_get_error_ptr(png))->error_, message);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp png, png_const_charp message) {
    keep(static_cast<Reader*>(png_get_error_ptr(png))->warning_, message);
  }

  Bytes left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char error_[128] = "", warning_[128] = "";
  bool ended_ = false;
};

// The size stands in the first chunk, at a fixed place.
Size size_of(Bytes file, std::string_view where, const PictureLimits& limits) {
  constexpr std::size_t kWidth = 16, kHeight = 20, kEnd = 33;
  if (file.size() < kEnd) refuse(ErrorKind::truncated, where, "PNG", std::to_string(file.size()) + " bytes");
  const auto number = [&](std::size_t at) { return std::int64_t{png_get_uint_32(reinterpret_cast<png_const_bytep>(file.data()) + at)}; };
  const std::int64_t width = number(kWidth), height = number(kHeight);
  if (width > PNG_UINT_31_MAX || height > PNG_UINT_31_MAX)
    fail(ErrorKind::bad_value, std::string(where), "size, expected what PNG allows, got " + std::to_string(width) + " x " + std::to_string(height));
  check_size(width, height, limits, where);
  return {static_cast<std::int32_t>(width), static_cast<std::int32_t>(height)};
}

// Asks for 8 bits of red, green, blue and, where there is any, alpha.
void ask_for_colours(png_structp png, png_infop info) {
  const int type = png_get_color_type(png, info);
  png_set_strip_16(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY) {
    png_set_expand_gray_1_2_4_to_8(png);
    if (png_get_valid(png, info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(png);
  }
  if (type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
}

}  // namespace

Picture decode_png(Bytes file, std::string_view where, const PictureLimits& limits) {
  Picture picture{size_of(file, where, limits)};
  Reader reader(file);
  const png_structp png = reader.png();
  const png_infop info = reader.info();
  const bool begun = reader.does([&] {
    png_set_read_fn(png, &reader, Reader::read);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // What a picture does not need to be seen is passed over, however large it would become; all but this one.
    constexpr png_byte kExif[] = "eXIf";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, kExif, 1);
    png_read_info(png, info);
    // Something else might have stood in front of the first chunk.
    if (png_get_image_width(png, info) != static_cast<png_uint_32>(picture.size.width) ||
        png_get_image_height(png, info) != static_cast<png_uint_32>(picture.size.height))
      png_error(png, "no header first");
    ask_for_colours(png, info);
  });
  if (!begun) refuse(reader.kind(), where, "PNG", reader.fault());
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  const bool alpha = row_bytes == static_cast<std::size_t>(picture.size.width) * 4;
  const auto height = static_cast<std::size_t>(picture.size.height);
  std::vector<std::uint8_t> pixels(row_bytes * height);
  std::vector<png_bytep> rows(height);
  for (std::size_t y = 0; y < height; ++y) rows[y] = pixels.data() + y * row_bytes;
  png_bytep exif = nullptr;
  png_uint_32 exif_bytes = 0;
  const bool done = reader.does([&] {
    png_read_image(png, rows.data());
    png_read_end(png, info);
    png_get_eXIf_1(png, info, &exif_bytes, &exif);
  });
  if (!done) refuse(reader.kind(), where, "PNG", reader.fault());
  if (alpha) picture = on_white(picture.size, pixels);
  else picture.rgb = std::move(pixels);
  return oriented(std::move(picture), exif_orientation(std::as_bytes(std::span(exif, exif_bytes))));
}

}  // namespace lapidary::media
