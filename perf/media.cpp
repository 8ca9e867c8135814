// How long it takes to make a photo of 12 megapixels and 30 s of sound what a tower takes, in one thread. Built and run by perf/media.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "checkpoint/error.hpp"
#include "media/picture.hpp"
#include "media/sound.hpp"

using namespace lapidary::media;

namespace {

constexpr int kWidth = 4000, kHeight = 3000, kRounds = 15;

// Clouds of several sizes, and some noise as of a camera. [kHeight, kWidth, 3]
std::vector<std::uint8_t> scene() {
  const auto random = [](std::uint32_t x, std::uint32_t y, std::uint32_t of) {
    std::uint32_t z = x * 0x9e3779b1u ^ y * 0x85ebca77u ^ of * 0xc2b2ae3du;
    z = (z ^ z >> 15) * 0x2c1b3c6du;
    return static_cast<float>((z ^ z >> 13) & 0xffff) / 65536.0f - 0.5f;
  };
  std::vector<std::uint8_t> rgb;
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x)
      for (std::uint32_t c = 0; c < 3; ++c) {
        float value = 128;
        for (int size = 8; size <= 512; size *= 4) {
          const float u = static_cast<float>(x % size) / static_cast<float>(size), v = static_cast<float>(y % size) / static_cast<float>(size);
          const auto left = static_cast<std::uint32_t>(x / size), top = static_cast<std::uint32_t>(y / size);
          const float above = random(left, top, c) * (1 - u) + random(left + 1, top, c) * u;
          const float below = random(left, top + 1, c) * (1 - u) + random(left + 1, top + 1, c) * u;
          value += (above * (1 - v) + below * v) * std::sqrt(static_cast<float>(size)) * 8;
        }
        value += random(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y), 9) * 14;
        rgb.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f)));
      }
  return rgb;
}

// Of quality 90, half the colours; with a camera held upright, where it is turned.
std::string photo(const std::vector<std::uint8_t>& rgb, bool turned) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = kWidth, jpeg.image_height = kHeight, jpeg.input_components = 3, jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 90, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  constexpr char kExif[] = "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0";
  if (turned) jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(kExif), sizeof kExif);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(rgb.data()) + std::size_t{jpeg.next_scanline} * kWidth * 3;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&jpeg);
  std::free(bytes);
  return file;
}

// A WAV file of two channels, 16 bits.
std::string recording(int rate, int seconds) {
  std::string samples;
  for (int i = 0; i < rate * seconds * 2; ++i) {
    const auto value = static_cast<std::int16_t>(9000 * std::sin(i * 0.031) + 4000 * std::sin(i * 0.0071));
    samples.append(reinterpret_cast<const char*>(&value), 2);
  }
  const auto number = [](std::uint32_t value, std::size_t bytes) { return std::string(reinterpret_cast<const char*>(&value), bytes); };
  const auto size = static_cast<std::uint32_t>(samples.size()), frequency = static_cast<std::uint32_t>(rate);
  return "RIFF" + number(size + 36, 4) + "WAVEfmt " + number(16, 4) + number(1, 2) + number(2, 2) + number(frequency, 4) +
         number(frequency * 4, 4) + number(4, 2) + number(16, 2) + "data" + number(size, 4) + samples;
}

// Of the processor: the only thread there is waits for nothing, and what others do meanwhile does not count.
class Timer {
 public:
  double ms() {
    const double before = std::exchange(last_, now());
    return last_ - before;
  }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  }
  double last_ = now();
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void show_photo(const char* name, const std::string& file) {
  std::vector<double> decode, resize, cut, all;
  Size size;
  for (int round = 0; round < kRounds; ++round) {
    Timer timer;
    const Picture picture = decode_picture(std::as_bytes(std::span(file)), name);
    decode.push_back(timer.ms());
    const Picture small = resized(picture, size = fitted(picture.size, kPictureBudget));
    resize.push_back(timer.ms());
    const Patches values = patches(small, 16);
    cut.push_back(timer.ms());
    all.push_back(decode.back() + resize.back() + cut.back());
  }
  std::printf("| %s, %.1f MB, to %d x %d | %.0f | %.0f | %.1f | %.0f |\n", name, static_cast<double>(file.size()) / 1e6, size.width, size.height,
              median(decode), median(resize), median(cut), median(all));
}

void show_sound(const char* name, const std::string& file) {
  std::vector<double> decode, transform, all;
  for (int round = 0; round < kRounds; ++round) {
    Timer timer;
    const Sound sound = decode_sound(std::as_bytes(std::span(file)), name);
    decode.push_back(timer.ms());
    const auto mel = spectra(sound.samples, name);
    transform.push_back(timer.ms());
    all.push_back(decode.back() + transform.back());
  }
  std::printf("| %s | %.0f | | %.0f | %.0f |\n", name, median(decode), median(transform), median(all));
}

}  // namespace

int main() {
  try {
    const auto rgb = scene();
    std::printf("milliseconds of one processor, median of %d\n\n| | decode | resize | patches, spectra | all |\n|---|---|---|---|---|\n", kRounds);
    show_photo("JPEG of 12 megapixels", photo(rgb, false));
    show_photo("the same, turned", photo(rgb, true));
    show_sound("30 s of WAV, 16 kHz", recording(16000, 30));
    show_sound("30 s of WAV, 44.1 kHz", recording(44100, 30));
  } catch (const lapidary::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    return 1;
  }
}
