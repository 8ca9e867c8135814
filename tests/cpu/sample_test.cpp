// sample, against its definition.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/noise.hpp"
#include "cpu/random_settings.hpp"
#include "cpu/sample_rows.hpp"
#include "reference/sample.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Sampling;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");
constexpr int kVocab = 262144;
constexpr double kClose = 2e-5;  // decisions closer than this may differ in float32

const suite<"largest logit"> largest_logit = [] {
  "the largest logit is found wherever it is"_test = [] {
    Random random(1);
    for (const int n : {1, 2, 3, 7, 8, 9, 63, 64, 100, 1000, 9001}) {
      const auto noise = random.floats(n, -30, 30);
      for (int place = 0; place < n; place += 1 + n / 500) {
        auto logits = noise;
        logits[place] = 30.5f;
        expect(eq(sample(FloatRows{logits}).front(), place)) << "of" << n;
      }
    }
  };

  "of equal logits the lowest id is chosen"_test = [] {
    Random random(2);
    for (const int n : {2, 8, 33, 500, 3000}) {
      expect(eq(sample(FloatRows{std::vector<float>(n, -3.0f)}).front(), 0)) << "of" << n << "equal values";
      for (int round = 0; round < 50; ++round) {
        std::vector<float> logits;
        for (int i = 0; i < n; ++i) logits.push_back(static_cast<float>(random.below(3)));
        const auto first = std::max_element(logits.begin(), logits.end()) - logits.begin();
        expect(eq(sample(FloatRows{logits}).front(), static_cast<std::int32_t>(first))) << "of" << n;
        expect(eq(sample(logits, Sampling{.seed = 5}), static_cast<std::int32_t>(first))) << "temperature 0 of" << n;
      }
    }
  };

  "what is not a number is never the largest"_test = [] {
    expect(eq(sample(FloatRows{{-5.0f, -4.0f, -1e30f, -4.0f, -7.0f}}).front(), 1));
    expect(eq(sample(FloatRows{{-kInfinity, kNaN, -1e38f, -kInfinity}}).front(), 2));
    expect(eq(sample(FloatRows{{kNaN, 1.0f, kNaN, 2.0f, kNaN, -kInfinity, 0.0f, 1.0f, 2.0f}}).front(), 3));
    std::vector<float> one_left(1000, kNaN);
    one_left[997] = -1e30f;
    expect(eq(sample(FloatRows{one_left}).front(), 997));
  };
};

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
      const float e = cpu::exponential(word);
      expect(e > 0.0f) << word;
      worst = std::max(worst, std::abs(e - expected) / expected);
    }
    expect(worst < 4e-7) << worst;
    expect(std::abs(cpu::exponential(0xffffffffu) - 0x1p-33f) < 1e-16f);
  };

  "larger words never mean more noise at the end where tokens win"_test = [] {
    for (std::uint32_t word = 0xffffff00u; word < 0xffffffffu; ++word)
      expect(cpu::exponential(word) > cpu::exponential(word + 1)) << word;
  };

  "blocks are those of the definition"_test = [] {
    Random random(4);
    for (int round = 0; round < 50; ++round) {
      const std::uint64_t seed = random.bits(), index = random.bits() >> 8;
      const auto stream = static_cast<std::uint32_t>(random.bits());
      std::uint32_t blocks[cpu::kNoiseLanes], words[cpu::kBlockWords][cpu::kNoiseLanes];
      for (std::uint32_t& block : blocks) block = static_cast<std::uint32_t>(random.below(kVocab / 4));
      cpu::noise_words({seed, index, stream}, blocks, words);
      for (int lane = 0; lane < cpu::kNoiseLanes; ++lane)
        for (int word = 0; word < cpu::kBlockWords; ++word)
          expect(words[word][lane] == reference::noise_word(seed, static_cast<std::int64_t>(index), stream,
                                                            static_cast<std::int32_t>(blocks[lane] * 4) + word));
    }
  };
};

struct RandomRequest : RandomSettings {
  std::vector<float> logits;

  RandomRequest(Random& random, int n) : RandomSettings(random, n, n) {
    const bool coarse = random.chance(3);  // many equal logits
    for (int i = 0; i < n; ++i) {
      const double logit = random.uniform(-8, 8);
      logits.push_back(random.chance(40) ? -kInfinity : static_cast<float>(coarse ? std::round(logit) : logit));
    }
    logits[random.below(n)] = 9.0f;
    if (const int kept = random.below(n); !mask.empty()) mask[kept / 32] |= 1u << (kept % 32);
  }

  std::int32_t sampled() const { return sample(logits, sampling, row(), counts); }
};

const suite<"sample"> sampling = [] {
  "any settings choose the token of the definition"_test = [] {
    Random random(5);
    int compared = 0, close = 0;
    for (int round = 0; round < 4000; ++round) {
      const RandomRequest request(random, 1 + random.below(300));
      const graph::SelectRow row = request.row();
      const graph::Selection selection{request.sampling, request.counts, {&row, 1}};
      const auto y = reference::adjusted(request.logits, selection, row);
      if (*std::max_element(y.begin(), y.end()) == -INFINITY) continue;
      const auto expected = reference::distribution(request.logits, selection, row);
      const auto pick = reference::pick(expected.probabilities, request.sampling, row.index);
      if (expected.gap < kClose || pick.margin < kClose) {
        ++close;
        continue;
      }
      ++compared;
      expect(eq(request.sampled(), pick.token)) << "round" << round;
    }
    expect(compared > 3500 && close < 20) << compared << "compared," << close << "too close to call";
  };

  "a whole vocabulary is sampled as defined, with each truncation and with none"_test = [] {
    Random random(6);
    std::vector<float> logits = random.floats(kVocab, -8, 8);
    for (int i = 0; i < 20; ++i) logits[random.below(kVocab)] = static_cast<float>(random.uniform(10, 16));
    const std::vector<float> flat(kVocab, 1.5f);
    const Sampling settings[] = {
        {.temperature = 1.0f},
        {.temperature = 0.4f},
        {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f},
        {.temperature = 1.5f, .top_k = 5000},
        {.temperature = 1.0f, .top_p = 0.95f},
        {.temperature = 2.0f, .top_p = 0.3f},
        {.temperature = 1.0f, .min_p = 0.01f},
        {.temperature = 1.0f, .top_k = 200000, .top_p = 0.9f, .min_p = 1e-6f},
    };
    int compared = 0;
    for (const Sampling& sampling : settings)
      for (const bool even : {false, true}) {
        const std::vector<float>& row_logits = even ? flat : logits;
        const auto expected = reference::distribution(row_logits, {sampling, {}, {}}, {});
        for (std::int64_t index = 0; index < 3; ++index) {
          const auto pick = reference::pick(expected.probabilities, sampling, index);
          if (pick.margin < kClose) continue;
          expect(eq(sample(row_logits, sampling, {.index = index}), pick.token)) << "temperature" << sampling.temperature;
          ++compared;
        }
      }
    expect(compared > 40) << compared;
  };

  "a row is chosen the same among any others, by any number of threads"_test = [] {
    Random random(7);
    for (const int n : {50, 1000}) {
      const RandomRequest settings(random, n);
      Sampling sampling = settings.sampling;
      sampling.temperature = 1.0f;
      sampling.repetition = 1.3f;
      sampling.frequency = 0.2f;
      std::vector<std::int32_t> counts(n, 0);
      for (int i = 0; i < 40; ++i) ++counts[random.below(n)];

      FloatRows logits;
      std::vector<std::vector<std::int32_t>> drafted;
      std::vector<std::vector<std::uint32_t>> masks;
      std::vector<graph::SelectRow> rows;
      for (int r = 0; r < 8; ++r) {
        logits.push_back(random.floats(n, -5, 5));
        drafted.emplace_back();
        for (int i = 0; i < r; ++i) drafted.back().push_back(random.below(n));
        masks.emplace_back(r % 2 ? (n + 31) / 32 : 0);
        for (std::uint32_t& word : masks.back()) word = static_cast<std::uint32_t>(random.bits());
      }
      for (int r = 0; r < 8; ++r) rows.push_back({100 + r, drafted[r], masks[r]});

      std::vector<std::int32_t> alone;
      for (int r = 0; r < 8; ++r) alone.push_back(sample(logits[r], sampling, rows[r], counts));
      for (int width = 1; width <= 8; ++width)
        for (const int parts : {1, 2, 3, 9}) {
          const auto numbers = random.pick(width, 8);
          const auto some = gather(rows, numbers);
          const graph::Selection selection{sampling, counts, some};
          const auto together = sample(gather(logits, numbers), &selection, parts);
          for (int r = 0; r < width; ++r) expect(eq(together[r], alone[numbers[r]])) << "width" << width;
        }
    }
  };

  "drafted tokens count like history"_test = [] {
    Random random(8);
    const int n = 40;
    Sampling sampling{.repetition = 1.7f, .presence = 0.5f, .frequency = 0.6f, .temperature = 1.0f};
    int moved = 0;
    for (int round = 0; round < 200; ++round) {
      const auto logits = random.floats(n, -3, 3);
      std::vector<std::int32_t> before(n, 0), drafted;
      for (int i = 0; i < 20; ++i) ++before[random.below(n)];
      auto after = before;
      for (int i = 0; i < 7; ++i) {
        drafted.push_back(random.below(n / 4));
        ++after[drafted.back()];
      }
      sampling.seed = random.bits();
      const auto with_drafts = sample(logits, sampling, {.index = round, .drafted = drafted}, before);
      expect(eq(with_drafts, sample(logits, sampling, {.index = round}, after)));
      moved += with_drafts != sample(logits, sampling, {.index = round}, before);
    }
    expect(moved > 20) << "drafts matter";
  };

  "logits stay as they are"_test = [] {
    Random random(9);
    const RandomRequest request(random, 500);
    const auto logits = random.floats(500, -5, 5);
    const RowBuffer in(FloatRows{logits});
    IdBuffer out(1, 1), candidates(1, 500);
    RowBuffer weights(1, 500);
    const graph::SelectRow row = request.row();
    for (const Sampling& sampling : {Sampling{.temperature = 1.0f, .top_p = 0.5f}, request.sampling}) {
      const std::vector<std::int32_t> counts(500, 1);
      const graph::Selection selection{sampling, counts, {&row, 1}};
      cpu::sample(1, in.in(), {}, 500, &selection, out.out(), weights.out(), candidates.out(), {});
      expect(same_bits(in.rows().front(), logits));
    }
  };
};

const suite<"sample at its limits"> limits = [] {
  const auto every_way = [](auto&& check) {
    for (const float temperature : {0.0f, 1e-40f, 1e-20f, 1.0f, 1e30f, kInfinity})
      for (const std::int32_t top_k : {0, 1, 3, INT32_MAX})
        for (const float top_p : {0.0f, 0.5f, 1.0f})
          for (const float min_p : {0.0f, 1.0f})
            check(Sampling{.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p});
  };

  "where logits say nothing, the first allowed token is chosen, or 0"_test = [every_way] {
    const std::vector<float> nothing = {kNaN, -kInfinity, kNaN, -kInfinity, kNaN, kNaN, kNaN, kNaN, kNaN, -kInfinity};
    const std::vector<float> numbers(10, 1.0f);
    const std::vector<std::uint32_t> none = {0}, from_3 = {0x3f8};
    const std::vector<std::int32_t> early = {0, 1, 3, 77, -1}, all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    every_way([&](Sampling sampling) {
      expect(eq(sample(nothing, sampling), 0));
      expect(eq(sample(numbers, sampling, {.mask = none}), 0));
      expect(eq(sample(nothing, sampling, {.mask = from_3}), 3));
      sampling.suppressed = early;
      expect(eq(sample(nothing, sampling), 2));
      expect(eq(sample(nothing, sampling, {.mask = from_3}), 4));
      sampling.suppressed = all;
      expect(eq(sample(numbers, sampling), 0));
    });
  };

  "the only token left is chosen"_test = [every_way] {
    std::vector<float> logits(100, 2.0f);
    const std::vector<std::uint32_t> only_70 = {0, 0, 1u << 6, 0};
    std::vector<float> one(100, -kInfinity);
    one[70] = -1e30f;
    every_way([&](const Sampling& sampling) {
      expect(eq(sample(logits, sampling, {.mask = only_70}), 70));
      expect(eq(sample(one, sampling), 70));
    });
  };

  "an infinite logit wins"_test = [every_way] {
    std::vector<float> logits(100, 2.0f);
    logits[33] = logits[55] = kInfinity;
    every_way([&](const Sampling& sampling) { expect(eq(sample(logits, sampling), 33)); });
  };

  "a tiny temperature is the largest logit, a huge one is even"_test = [] {
    Random random(10);
    const auto logits = random.floats(20, -5, 5);
    std::vector<int> times(20, 0);
    for (int index = 0; index < 2000; ++index) {
      expect(eq(sample(logits, {.temperature = 1e-39f}, {.index = index}), sample(logits, {})));
      ++times[sample(logits, {.temperature = 1e30f}, {.index = index})];
    }
    for (const int count : times) expect(count > 60 && count < 140) << count;
  };

  "what meets a threshold exactly belongs to it"_test = [] {
    const auto kinds = [](const Sampling& sampling) {
      std::vector<bool> seen(16, false);
      for (int index = 0; index < 500; ++index) seen[sample(std::vector<float>(16, 1.0f), sampling, {.index = index})] = true;
      const auto end = std::find(seen.begin(), seen.end(), false);
      expect(std::find(end, seen.end(), true) == seen.end()) << "the lower ids come first";
      return end - seen.begin();
    };
    expect(kinds({.temperature = 1.0f}) == 16);
    expect(kinds({.temperature = 1.0f, .top_p = 0.5f}) == 8);
    expect(kinds({.temperature = 1.0f, .top_k = 8, .top_p = 0.25f}) == 2);
    expect(kinds({.temperature = 1.0f, .min_p = 1.0f}) == 16);
    expect(kinds({.temperature = 1.0f, .top_k = 5, .min_p = 1.0f}) == 5);
  };

  "hidden tokens are never chosen"_test = [] {
    Random random(11);
    const std::vector<std::int32_t> suppressed = {0, 5, 63, 64, 199, 200, 1 << 30, -5};
    std::vector<std::uint32_t> mask(7, ~0u);
    mask[3] = 0;
    mask[6] = 0xf0;
    const auto logits = random.floats(200, -1, 1);
    std::vector<int> times(200, 0);
    for (int index = 0; index < 3000; ++index)
      ++times[sample(logits, {.suppressed = suppressed, .temperature = 2.0f}, {.index = index, .mask = mask})];
    for (int token = 0; token < 200; ++token) {
      const bool hidden = std::find(suppressed.begin(), suppressed.end(), token) != suppressed.end() ||
                          !(mask[token / 32] >> (token % 32) & 1);
      expect(hidden == (times[token] == 0)) << token;
    }
  };
};

}  // namespace
}  // namespace lapidary::test
