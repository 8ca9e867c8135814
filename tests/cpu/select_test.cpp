// argmax.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/kernel_rows.hpp"
#include "reference/select.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

std::vector<std::int32_t> argmax(const FloatRows& logits, int parts = 1) {
  const int rows = static_cast<int>(logits.size()), n = static_cast<int>(logits.front().size());
  const RowBuffer in(logits);
  IdBuffer out(rows, 1);
  in_parts(parts, [&](cpu::Part part) { cpu::argmax(rows, in.in(), n, out.out(), part); });
  std::vector<std::int32_t> picked;
  for (const auto& row : out.rows()) picked.push_back(row[0]);
  return picked;
}

suite<"argmax"> argmax_suite = [] {
  "argmax finds the largest value wherever it is"_test = [] {
    Random random(1);
    for (const int n : {1, 2, 3, 7, 8, 9, 63, 64, 100, 1000}) {
      const auto noise = random.floats(n, -30, 30);
      for (int place = 0; place < n; ++place) {
        auto logits = noise;
        logits[place] = 30.5f;
        expect(eq(argmax({logits}).front(), place)) << "of" << n;
      }
    }
  };

  "argmax takes the lowest index of equal values"_test = [] {
    Random random(2);
    for (const int n : {2, 8, 33, 500}) {
      expect(eq(argmax({std::vector<float>(n, -3.0f)}).front(), 0)) << "of" << n << "equal values";
      for (int round = 0; round < 50; ++round) {
        std::vector<float> logits;
        for (int i = 0; i < n; ++i) logits.push_back(static_cast<float>(random.below(3)));
        expect(eq(argmax({logits}).front(), reference::argmax(logits))) << "of" << n;
      }
    }
  };

  "argmax works where all values are negative, and where some are masked"_test = [] {
    constexpr float kMasked = -std::numeric_limits<float>::infinity();
    expect(eq(argmax({{-5.0f, -4.0f, -1e30f, -4.0f, -7.0f}}).front(), 1));
    expect(eq(argmax({{kMasked, kMasked, -1e38f, kMasked}}).front(), 2));
    std::vector<float> one_left(1000, kMasked);
    one_left[997] = -1e30f;
    expect(eq(argmax({one_left}).front(), 997));
  };

  "argmax gives a row the same answer among any others, over a whole vocabulary"_test = [] {
    Random random(3);
    const FloatRows logits = random_rows(random, 8, 262144, -30, 30);
    for (const int width : {1, 2, 3, 5, 8})
      for (const int parts : {1, 2, 3}) {
        const auto numbers = random.pick(width, 8);
        const auto picked = argmax(gather(logits, numbers), parts);
        for (int r = 0; r < width; ++r) expect(eq(picked[r], reference::argmax(logits[numbers[r]])));
      }
  };
};

}  // namespace
}  // namespace lapidary::test
