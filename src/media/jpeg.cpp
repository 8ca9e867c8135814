// JPEG through libjpeg-turbo. That leaves by longjmp when it fails: what it is asked to do holds nothing that would have to be destroyed.
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>
#include <jerror.h>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

constexpr int kMaxScans = 200;  // each goes over the whole picture, and an empty one is a few bytes

class Reader {
 public:
  explicit Reader(Bytes file) : file_(file) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = [](j_common_ptr jpeg) { of(jpeg).stop(); };
    errors_.emit_message = [](j_common_ptr jpeg, int level) {
      if (level < 0 && spoils(jpeg->err->msg_code)) of(jpeg).stop();
    };
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = [](j_common_ptr jpeg) {
      if (of(jpeg).jpeg_.input_scan_number > kMaxScans) of(jpeg).stop("more than 200 scans");
    };
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  j_decompress_ptr jpeg() { return &jpeg_; }

  void open() {
    jpeg_create_decompress(&jpeg_);
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()), static_cast<unsigned long>(file_.size()));
    jpeg_save_markers(&jpeg_, JPEG_APP0 + 1, 0xFFFF);  // EXIF's
    jpeg_read_header(&jpeg_, TRUE);
  }

  // Is `ask` done to the end? If not, fault() says why.
  template <class Ask>
  bool does(Ask ask) {
    if (setjmp(out_)) return false;
    ask();
    return true;
  }

  ErrorKind kind() const {
    return errors_.msg_code == JWRN_JPEG_EOF || errors_.msg_code == JERR_INPUT_EOF ? ErrorKind::truncated : ErrorKind::bad_data;
  }
  std::string_view fault() const { return fault_; }

 private:
  static Reader& of(j_common_ptr jpeg) { return *static_cast<Reader*>(jpeg->client_data); }

  // Is the picture another one than was meant, where the library would go on?
  static bool spoils(int warning) {
    switch (warning) {
      case JWRN_EXTRANEOUS_DATA:
      case JWRN_ADOBE_XFORM:
      case JWRN_JFIF_MAJOR:
      case JWRN_TOO_MUCH_DATA: return false;
      default: return true;
    }
  }

  [[noreturn]] void stop(const char* fault = nullptr) {
    if (fault) std::strcpy(fault_, fault);
    else errors_.format_message(reinterpret_cast<j_common_ptr>(&jpeg_), fault_);
    std::longjmp(out_, 1);
  }

  Bytes file_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf out_{};
  char fault_[JMSG_LENGTH_MAX] = "";
};

bool is_printed(j_decompress_ptr jpeg) { return jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK; }

// cmyk: ink from 0 to 255, or with Adobe's mark the paper that it leaves. [width, 4]
void unprinted(const std::uint8_t* cmyk, bool adobe, std::span<std::uint8_t> rgb) {
  const auto paper = [&](std::uint8_t value) { return adobe ? value : 255 - value; };
  for (std::size_t at = 0; at < rgb.size(); at += 3, cmyk += 4)
    for (std::size_t c = 0; c < 3; ++c)
      rgb[at + c] = static_cast<std::uint8_t>(paper(cmyk[3]) - ((255 - paper(cmyk[c])) * paper(cmyk[3]) + 127) / 255);
}

int orientation_of(j_decompress_ptr jpeg) {
  for (const jpeg_marker_struct* marker = jpeg->marker_list; marker; marker = marker->next) {
    const Bytes bytes = std::as_bytes(std::span(marker->data, marker->data_length));
    if (bytes.size() > 6 && std::memcmp(bytes.data(), "Exif\0\0", 6) == 0) return exif_orientation(bytes);
  }
  return 1;
}

}  // namespace

Picture decode_jpeg(Bytes file, std::string_view where, const PictureLimits& limits) {
  Reader reader(file);
  const j_decompress_ptr jpeg = reader.jpeg();
  if (!reader.does([&] { reader.open(); })) refuse(reader.kind(), where, "JPEG", reader.fault());
  check_size(jpeg->image_width, jpeg->image_height, limits, where);
  const int orientation = orientation_of(jpeg);  // its marker is gone at the end
  Picture picture{{static_cast<std::int32_t>(jpeg->image_width), static_cast<std::int32_t>(jpeg->image_height)}};
  const std::size_t row_bytes = std::size_t{jpeg->image_width} * 3;
  picture.rgb.resize(row_bytes * jpeg->image_height);
  std::vector<std::uint8_t> printed(is_printed(jpeg) ? std::size_t{jpeg->image_width} * 4 : 0);
  const bool done = reader.does([&] {
    jpeg->out_color_space = printed.empty() ? JCS_RGB : JCS_CMYK;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
      std::uint8_t* row = picture.rgb.data() + row_bytes * jpeg->output_scanline;
      JSAMPROW rows[] = {printed.empty() ? row : printed.data()};
      jpeg_read_scanlines(jpeg, rows, 1);
      if (!printed.empty()) unprinted(printed.data(), jpeg->saw_Adobe_marker, {row, row_bytes});
    }
    jpeg_finish_decompress(jpeg);
  });
  if (!done) refuse(reader.kind(), where, "JPEG", reader.fault());
  return oriented(std::move(picture), orientation);
}

}  // namespace lapidary::media
