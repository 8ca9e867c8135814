// Resizing against the naive filter: sizes that do not fill the vectors, both axes, growing and shrinking.
#include <boost/ut.hpp>

#include "reference/resize.hpp"
#include "support/random.hpp"

namespace lapidary::test::resize_test {
namespace {

using namespace boost::ut;
using namespace media;

Picture random_picture(Random& random, Size size) {
  Picture picture{size};
  // Extremes, so that sums leave the range on both sides.
  for (std::int64_t i = 0; i < size.pixels() * 3; ++i) picture.rgb.push_back(static_cast<std::uint8_t>(random.chance(2) ? random.below(256) : random.below(2) * 255));
  return picture;
}

const suite<"resize"> resize = [] {
  "any size becomes any other as the naive filter has it"_test = [] {
    Random random(7);
    for (int round = 0; round < 60; ++round) {
      const Size from{1 + random.below(70), 1 + random.below(40)}, to{1 + random.below(70), 1 + random.below(40)};
      const Picture picture = random_picture(random, from);
      expect(resized(picture, to).rgb == reference::resized(picture, to).rgb) << from.width << from.height << to.width << to.height;
    }
  };

  "an axis that stays is left alone"_test = [] {
    Random random(8);
    const Picture picture = random_picture(random, {13, 9});
    expect(resized(picture, {13, 9}).rgb == picture.rgb);
    expect(resized(picture, {13, 4}).rgb == reference::resized(picture, {13, 4}).rgb);
    expect(resized(picture, {5, 9}).rgb == reference::resized(picture, {5, 9}).rgb);
  };

  "hundreds become a few"_test = [] {
    Random random(9);
    const Picture picture = random_picture(random, {700, 300});
    expect(resized(picture, {48, 48}).rgb == reference::resized(picture, {48, 48}).rgb);
  };
};

}  // namespace
}  // namespace lapidary::test::resize_test
