// sample on the CPU, against its definition.
#include <boost/ut.hpp>

#include "cpu/sample_rows.hpp"
#include "numeric/noise.hpp"
#include "support/sample_cases.hpp"

namespace lapidary::test::sample_test {
namespace {

using namespace boost::ut;
using graph::Sampling;

const suite<"noise"> noise = [] {
  "exponential noise is accurate to its last bits and never zero, in the whole range and at both ends"_test = [] {
    std::vector<std::uint32_t> words;
    for (std::uint32_t i = 0; i < 300; ++i)
      for (const std::uint32_t end : {0u, 0x7fffff00u, 0x80000000u, 0xfffffed3u, 0xff000000u}) words.push_back(end + i);
    words.push_back(0xffffffffu);
    Random random(3);
    for (int i = 0; i < 100000; ++i) words.push_back(static_cast<std::uint32_t>(random.bits()));
    double worst = 0.0;
    for (const std::uint32_t word : words) {
      const double u = (word + 0.5) * 0x1p-32;
      const double expected = word < 0x80000000u ? -std::log(u) : -std::log1p(-((~word) + 0.5) * 0x1p-32);
      const float e = numeric::exponential(word);
      expect(e > 0.0f) << word;
      worst = std::max(worst, std::abs(e - expected) / expected);
    }
    expect(worst < 4e-7) << worst;
    expect(std::abs(numeric::exponential(0xffffffffu) - 0x1p-33f) < 1e-16f);
  };

  "larger words never mean more noise at the end where tokens win"_test = [] {
    for (std::uint32_t word = 0xffffff00u; word < 0xffffffffu; ++word)
      expect(numeric::exponential(word) > numeric::exponential(word + 1)) << word;
  };

  "blocks are those of the definition"_test = [] {
    Random random(4);
    for (int round = 0; round < 50; ++round) {
      const std::uint64_t seed = random.bits(), index = random.bits() >> 8;
      const auto stream = static_cast<std::uint32_t>(random.bits());
      std::uint32_t blocks[numeric::kNoiseLanes], words[numeric::kBlockWords][numeric::kNoiseLanes];
      for (std::uint32_t& block : blocks) block = static_cast<std::uint32_t>(random.below(262144 / 4));
      numeric::noise_words({seed, index, stream}, blocks, words);
      for (int lane = 0; lane < numeric::kNoiseLanes; ++lane)
        for (int word = 0; word < numeric::kBlockWords; ++word)
          expect(words[word][lane] == reference::noise_word(seed, static_cast<std::int64_t>(index), stream,
                                                            static_cast<std::int32_t>(blocks[lane] * 4) + word));
    }
  };
};

const suite<"sample"> sampling = [] {
  static const Choose choose = choose_on_cpu;
  test_largest_logit(choose, 500);
  test_sample(choose, 1000, 3);
  test_sample_limits(choose);

  "a row is chosen the same among any others, by any number of threads"_test = [] {
    Random random(7);
    for (const int n : {50, 1000}) {
      const RandomSettings settings(random, n, n);
      Sampling sampling = settings.sampling;
      sampling.temperature = 1.0f;
      sampling.repetition = 1.3f;
      sampling.frequency = 0.2f;
      Ids counts(n, 0);
      for (int i = 0; i < 40; ++i) ++counts[random.below(n)];

      FloatRows logits;
      IdRows drafted;
      Masks masks;
      std::vector<graph::SelectRow> rows;
      for (int r = 0; r < 8; ++r) {
        logits.push_back(random.floats(n, -5, 5));
        drafted.emplace_back();
        for (int i = 0; i < r; ++i) drafted.back().push_back(random.below(n));
        masks.emplace_back(r % 2 ? (n + 31) / 32 : 0);
        for (std::uint32_t& word : masks.back()) word = static_cast<std::uint32_t>(random.bits());
      }
      for (int r = 0; r < 8; ++r) rows.push_back({100 + r, drafted[r], masks[r]});

      Ids alone;
      for (int r = 0; r < 8; ++r) {
        const graph::Selection selection{sampling, counts, {&rows[r], 1}};
        alone.push_back(sample({logits[r]}, {}, &selection).front());
      }
      for (int width = 1; width <= 8; ++width)
        for (const int parts : {1, 2, 3, 9}) {
          const auto numbers = random.pick(width, 8);
          const auto some = gather(rows, numbers);
          const graph::Selection selection{sampling, counts, some};
          expect(sample(gather(logits, numbers), {}, &selection, parts) == gather(alone, numbers))
              << "width" << width << "in" << parts << "parts";
        }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::sample_test
