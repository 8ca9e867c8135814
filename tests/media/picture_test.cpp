// Files of pictures against what Pillow makes of them, and broken ones.
#include <boost/ut.hpp>

#include <sys/resource.h>

#include "checkpoint/sha256.hpp"
#include "media/find_format.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"

namespace lapidary::test::picture_test {
namespace {

using namespace boost::ut;
using namespace media;

std::string hash_of(const Picture& picture) { return sha256_hex(std::as_bytes(std::span(picture.rgb))); }

Picture decoded(const std::string& path, const PictureLimits& limits = {}) {
  const std::string file = read_text_file(path);
  return decode_picture(bytes_of(file), path, limits);
}

std::string big_endian(std::uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  return text;
}

std::int64_t peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

const suite<"pictures"> pictures = [] {
  "every picture of the fixtures is resized to the byte"_test = [] {
    simdjson::dom::parser parser;
    std::size_t count = 0;
    for (const auto& [name, of] : simdjson::dom::object(parser.load(kFixtures + "/images/expected.json"))) {
      const auto number = [&](const char* key) { return static_cast<std::int32_t>(std::int64_t(of[key])); };
      const Picture picture = decoded(kFixtures + "/images/" + std::string(std::string_view(of["file"])));
      expect(picture.size == Size{number("width"), number("height")}) << name;
      const Size size = fitted(picture.size, number("budget"));
      expect(size == Size{number("target_width"), number("target_height")} && soft_tokens(size) == number("soft_tokens")) << name;
      expect(hash_of(resized(picture, size)) == std::string_view(of["resized_sha256"])) << name;
      ++count;
    }
    expect(count == 16_ul);
  };

  "patches are cut as the fixtures say, and positions are rows and columns"_test = [] {
    const Expected expected(kFixtures + "/images/expected.safetensors.xz");
    simdjson::dom::parser parser;
    std::size_t positions = 0;
    for (const auto& [key, of] : simdjson::dom::object(parser.load(kFixtures + "/images/expected.json"))) {
      const std::string name(key);
      const Picture picture = decoded(kFixtures + "/images/" + std::string(std::string_view(of["file"])));
      const Patches cut = patches(resized(picture, fitted(picture.size, static_cast<std::int32_t>(std::int64_t(of["budget"])))), 16);
      expect(fatal(cut.values.size() == static_cast<std::size_t>(std::int64_t(of["patches"])) * 768)) << name;
      expect(std::ranges::equal(expected.floats(name + ".first_patch"), std::span(cut.values).first(768))) << name;
      expect(std::ranges::equal(expected.floats(name + ".last_patch"), std::span(cut.values).last(768))) << name;
      if (!expected.has(name + ".positions")) continue;
      const auto xy = expected.ids(name + ".positions");
      bool raster = xy.size() == 2 * static_cast<std::size_t>(cut.rows * cut.columns);
      for (std::size_t i = 0; i < xy.size(); ++i)
        raster = raster && xy[i] == static_cast<std::int32_t>(i / 2) % cut.columns * (i % 2 == 0) + static_cast<std::int32_t>(i / 2) / cut.columns * (i % 2 == 1);
      expect(raster) << name;
      ++positions;
    }
    expect(positions == 4_ul);
  };

  "a patch of 48 holds the nine of 16 in it"_test = [] {
    const Picture picture = decoded(kFixtures + "/images/exact-336x432.png");
    const Patches small = patches(picture, 16), large = patches(picture, 48);
    expect(large.rows == 7_i && large.columns == 9_i && small.rows == 21_i && small.columns == 27_i);
    bool same = true;
    for (std::size_t tile = 0; tile < 63; ++tile)
      for (std::size_t i = 0; i < 6912; ++i) {
        const std::size_t y = tile / 9 * 48 + i / 144, x = tile % 9 * 48 + i % 144 / 3;
        same = same && large.values[tile * 6912 + i] == small.values[((y / 16) * 27 + x / 16) * 768 + (y % 16) * 48 + (x % 16) * 3 + i % 3];
      }
    expect(same);
  };

  "sizes are fitted to every budget as recorded"_test = [] {
    simdjson::dom::parser parser;
    std::size_t count = 0;
    for (const simdjson::dom::element entry : parser.load(kFixtures + "/chat-golden.json")["image_resize_cases"]["cases"]) {
      const auto number = [](simdjson::dom::element value) { return static_cast<std::int32_t>(std::int64_t(value)); };
      for (const std::int32_t budget : kBudgets) {
        const auto wanted = entry[std::to_string(budget)];
        const Size size = fitted({number(entry["width"]), number(entry["height"])}, budget);
        expect(size == Size{number(wanted.at(1)), number(wanted.at(0))} && soft_tokens(size) == number(wanted.at(2)));
        ++count;
      }
    }
    expect(count == 70_ul);
  };

  "any size fits any budget"_test = [] {
    for (const std::int32_t budget : kBudgets)
      for (std::int32_t width = 1; width < 65536; width += 1 + width / 5)
        for (std::int32_t height = 1; height < 65536; height += 1 + height / 5) {
          const Size size = fitted({width, height}, budget);
          if (size.width < 48 || size.height < 48 || size.width % 48 || size.height % 48 || soft_tokens(size) > budget)
            expect(false) << width << height << budget;
        }
    expect(fitted({48, 48}, 70) == Size{384, 384});
  };

  "every format is decoded as Pillow does"_test = [] {
    simdjson::dom::parser parser;
    std::size_t count = 0;
    for (const auto& [name, of] : simdjson::dom::object(parser.load(kFixtures + "/media/expected.json"))) {
      const Picture picture = decoded(kFixtures + "/media/" + std::string(name));
      expect(picture.size == Size{static_cast<std::int32_t>(std::int64_t(of["width"])), static_cast<std::int32_t>(std::int64_t(of["height"]))}) << name;
      expect(hash_of(picture) == std::string_view(of["sha256"])) << name;
      ++count;
    }
    expect(count == 27_ul);
  };
};

const suite<"bad pictures"> bad_pictures = [] {
  "every PNG of the manifest"_test = [] {
    const auto cases = cases_about("png");
    expect(cases.size() == 19_ul);
    for (const Case& bad : cases) {
      const auto error = error_of([&] { decoded(bad.path); });
      // Names of kinds are for orientation; there is JPEG, and a chunk of 4 GB is no PNG.
      const std::map<std::string, std::string> ours = {{"not_an_image", "unsupported"}, {"bad_checksum", "bad_data"}, {"unsupported", "bad_data"},
                                                       {"jpeg-in-png.png", "truncated"}, {"chunk-length.png", "bad_data"}};
      const std::string outcome = error ? std::string(name_of(error->kind)) : "ok";
      const auto found = ours.find(bad.path.substr(bad.path.rfind('/') + 1)), kind = ours.find(bad.expect);
      expect(found != ours.end() ? outcome == found->second : is_expected(bad, error) || (kind != ours.end() && outcome == kind->second))
          << bad.path << "expected" << bad.expect << (error ? error->message() : "ok") << "\n";
      if (error) expect(error->message().starts_with("[" + bad.path + "] ") && error->message().find(", expected ") != std::string::npos) << error->message();
    }
  };

  "a file cut anywhere or with a byte changed is refused, or a picture of some size"_test = [] {
    for (const char* name : {"/media/baseline.jpg", "/media/progressive.jpg", "/media/lossless-alpha.webp", "/media/moving.webp",
                             "/media/moving.gif", "/media/palette-alpha.png", "/media/turned-6.webp"}) {
      const std::string file = read_text_file(kFixtures + name);
      const auto outcome = [&](const std::string& broken) {
        return error_of([&] {
          const Picture picture = decode_picture(bytes_of(broken), name, {.pixels = 1 << 20});
          expect(picture.rgb.size() == static_cast<std::size_t>(picture.size.pixels()) * 3);
        });
      };
      for (std::size_t size = 0; size < file.size(); size += 1 + file.size() / 97) {
        const auto error = outcome(file.substr(0, size));
        // What comes after the first picture is not read.
        if (size < file.size() / 3) expect(error.has_value()) << name << size;
        if (error) expect(error->message().find(", expected ") != std::string::npos) << error->message();
      }
      for (std::size_t at = 0; at < file.size(); at += 1 + file.size() / 211) {
        std::string broken = file;
        broken[at] ^= static_cast<char>(1 + at % 255);
        outcome(broken);
      }
    }
  };

  "a JPEG that ends early is refused, where its decoder would make the rest up"_test = [] {
    const std::string file = read_text_file(kFixtures + "/media/baseline.jpg");
    const auto error = error_of([&] { decode_picture(bytes_of(file.substr(0, file.size() - 20)), "cut.jpg"); });
    expect(error && error->kind == ErrorKind::truncated) << (error ? error->message() : "ok");
  };

  "a few bytes that claim much cost nothing"_test = [] {
    std::string png = "\x89PNG\r\n\x1a\n" + big_endian(13) + "IHDR" + big_endian(100'000) + big_endian(100'000);
    png.append("\x08\x02\0\0\0", 5).append(5000, 'x');
    std::string gif = "GIF89a\xff\xff\xff\xff";
    gif.append(3, '\0').append(100, ',');
    std::string jpeg = read_text_file(kFixtures + "/media/baseline.jpg");
    jpeg.replace(jpeg.find("\xff\xc0") + 5, 4, "\xff\xdc\xff\xdc");
    const std::int64_t before = peak_kib();
    for (const std::string& bomb : {png, gif, jpeg}) {
      const auto error = error_of([&] { decode_picture(bytes_of(bomb), "bomb"); });
      expect(error && error->kind == ErrorKind::too_large) << (error ? error->message() : "ok");
    }
    expect(peak_kib() - before < 1024);
  };

  "limits are kept to the pixel and byte"_test = [] {
    const std::string path = kFixtures + "/media/baseline.jpg";  // 61 x 47
    const std::size_t bytes = read_text_file(path).size();
    const auto outcome = [&](const PictureLimits& limits) { return outcome_of([&] { decoded(path, limits); }); };
    expect(outcome({.bytes = bytes, .pixels = 61 * 47, .side = 61}) == "ok");
    expect(outcome({.bytes = bytes - 1}) == "too_large");
    expect(outcome({.pixels = 61 * 47 - 1}) == "too_large");
    expect(outcome({.side = 60}) == "too_large");
  };

  "a format without its library names the package"_test = [] {
    const Format<PictureDecoder> table[] = {{"PNG", "libpng-dev", [](std::span<const std::byte> file) { return file[0] == std::byte{'P'}; }, &Decoders::png}};
    const auto error_for = [&](std::string_view file) {
      return error_of([&] { decoder_of(std::span<const Format<PictureDecoder>>(table), bytes_of(file), "a.png", 100, {}); }).value().message();
    };
    expect(error_for("PNG and some more") == "[a.png] PNG file, expected a program built with libpng-dev, got one without");
    expect(error_for("another file") == "[a.png] format, expected one of PNG, got a file that begins with 61 6e 6f 74");
    expect(error_for("short") == "[a.png] file, expected at least 12 bytes, got 5");
  };
};

}  // namespace
}  // namespace lapidary::test::picture_test
