// Any bytes as a file of a picture: an Error, or a picture that fits every budget.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "media/picture.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lapidary::media;
  const PictureLimits limits{.bytes = 1 << 20, .pixels = 1 << 18, .side = 1 << 15};
  try {
    const Picture picture = decode_picture(std::as_bytes(std::span(data, size)), "fuzz", limits);
    check(picture.size.width > 0 && picture.size.height > 0 && picture.size.pixels() <= limits.pixels);
    check(picture.rgb.size() == static_cast<std::size_t>(picture.size.pixels()) * 3);
    for (const std::int32_t budget : kBudgets) check(soft_tokens(fitted(picture.size, budget)) <= budget);
    const Picture small = resized(picture, {96, 48});
    const Patches cut = patches(small, 16);
    check(cut.rows == 3 && cut.columns == 6 && cut.values.size() == small.rgb.size() && small.rgb.size() == 96 * 48 * 3);
  } catch (const lapidary::Error& error) {
    check(error.what.find(", expected ") != std::string::npos);
  }
  return 0;
}
