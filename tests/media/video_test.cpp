// Videos: which frames are shown when, in which colours, and broken files.
#include <boost/ut.hpp>

#include "media/video.hpp"
#include "support/cases.hpp"

namespace lapidary::test::video_test {
namespace {

using namespace boost::ut;
using namespace media;

std::vector<Frame> seen(const std::string& name, std::int32_t count = kFrameCount, const VideoLimits& limits = {}) {
  const std::string file = read_text_file(kFixtures + "/media/" + name);
  return decode_video(bytes_of(file), name, kFrameBudget, count, limits);
}

std::array<int, 3> pixel(const Picture& picture, double x, double y) {
  const auto column = static_cast<std::size_t>(x * picture.size.width), row = static_cast<std::size_t>(y * picture.size.height);
  const std::uint8_t* at = picture.rgb.data() + (row * static_cast<std::size_t>(picture.size.width) + column) * 3;
  return {at[0], at[1], at[2]};
}

bool is_about(std::array<int, 3> a, std::array<int, 3> b, int off) {
  return std::abs(a[0] - b[0]) <= off && std::abs(a[1] - b[1]) <= off && std::abs(a[2] - b[2]) <= off;
}

// Frame `index` of the files: red to the left, grey to the right.
void expect_frame(const Frame& frame, int index, double rate, std::string_view name) {
  const int grey = 8 + 6 * index;
  expect(std::abs(frame.seconds - index / rate) < 1e-9) << name << index << frame.seconds;
  const auto right = pixel(frame.picture, 0.75, 0.5), left = pixel(frame.picture, 0.2, 0.5);
  expect(is_about(right, {grey, grey, grey}, 2)) << name << index << right[0] << right[1] << right[2];
  expect(is_about(left, {200, 20, 20}, 6)) << name << index << left[0] << left[1] << left[2];
}

const suite<"videos"> videos = [] {
  "frames are taken evenly, each at its time"_test = [] {
    struct Case { const char* name; int frames; double rate; };
    for (const auto& [name, all, rate] : {Case{"shades.mp4", 40, 10}, {"shades.webm", 12, 24}, {"shades.avi", 12, 10}})
      for (const int count : {32, 5, 1}) {
        const auto frames = seen(name, count);
        const int wanted = std::min(all, count);
        expect(fatal(frames.size() == static_cast<std::size_t>(wanted))) << name << frames.size();
        for (int j = 0; j < wanted; ++j) expect_frame(frames[static_cast<std::size_t>(j)], j * all / wanted, rate, name);
      }
  };

  "a packet that shows nothing is no frame"_test = [] {
    const auto frames = seen("hidden.webm", 39);
    expect(fatal(frames.size() == 39_ul));
    for (int i = 0; i < 39; ++i) {
      const int grey = 8 + 6 * (i < 11 ? i : i + 1);
      expect(is_about(pixel(frames[static_cast<std::size_t>(i)].picture, 0.75, 0.5), {grey, grey, grey}, 2)) << i;
    }
    expect(seen("hidden.webm", 2).at(1).seconds == 1.9_d);  // 39 / 2
  };

  "frames are shown in their budget"_test = [] {
    const Size size = seen("shades.mp4").front().picture.size;  // of 96 x 64
    expect(size == fitted({96, 64}, 70) && soft_tokens(size) <= 70);
  };

  "a camera that was turned is upright"_test = [] {
    const auto frames = seen("turned.mp4");
    expect(fatal(frames.size() == 3_ul));
    // What was to the left is on top.
    expect(frames[0].picture.size == fitted({64, 96}, 70));
    expect(is_about(pixel(frames[0].picture, 0.5, 0.2), {200, 20, 20}, 6) && is_about(pixel(frames[0].picture, 0.5, 0.8), {8, 8, 8}, 2));
  };

  "limits are kept"_test = [] {
    const auto outcome = [](const VideoLimits& limits) { return outcome_of([&] { seen("shades.mp4", 32, limits); }); };
    expect(outcome({.pixels = 96 * 64, .frames = 40}) == "ok");
    expect(outcome({.bytes = 1000}) == "too_large");
    expect(outcome({.frames = 39}) == "too_large");
    expect(outcome({.pixels = 96 * 64 - 1}) != "ok");
  };

  "a file cut anywhere or with a byte changed is refused, or frames"_test = [] {
    for (const char* name : {"shades.mp4", "shades.webm", "shades.avi"}) {
      const std::string file = read_text_file(kFixtures + "/media/" + name);
      const auto outcome = [&](const std::string& broken) {
        return error_of([&] {
          const auto frames = decode_video(bytes_of(broken), name, kFrameBudget, 2, {.pixels = 1 << 16, .frames = 100});
          expect(!frames.empty() && frames.size() <= 2_ul);
        });
      };
      for (std::size_t size = 0; size < file.size(); size += 1 + file.size() / 41)
        if (const auto error = outcome(file.substr(0, size))) expect(error->message().find(", expected ") != std::string::npos) << error->message();
      for (std::size_t at = 0; at < file.size(); at += 1 + file.size() / 41) {
        std::string broken = file;
        broken[at] ^= static_cast<char>(1 + at % 255);
        outcome(broken);
      }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::video_test
