// sample on the device, against its definition.
#include <boost/ut.hpp>

#include "metal/sample_stage.hpp"
#include "support/sample_cases.hpp"

namespace lapidary::test::sample_test {
namespace {

using namespace boost::ut;
using graph::Sampling;

suite<"sample on the device"> sample_suite = [] {
  test_largest_logit(choose_on_device, 60);
  test_sample(choose_on_device, 250, 2);
  test_sample_limits(choose_on_device);

  "rows beyond those of the run are left alone"_test = [] {
    Stage stage(graph::Op::sample, {.n = {40}}, 5);
    stage.in(0, FloatRows(5, std::vector<float>(40, 1.0f)));
    for (const int i : {0, 1, 2}) stage.out(i, i == 0 ? 1 : 40);
    stage.bound().states = stage.hold(std::vector<graph::RoundState>(1));
    stage.bound().counts = stage.bound().masks = stage.bound().biases = stage.hold(nullptr, 16);
    stage.run().row_count = 3;
    stage.play();
    const FloatRows out = stage.floats(0);
    for (int r = 0; r < 5; ++r) expect(is_untouched(out[r][0]) == (r >= 3)) << "row" << r;
  };

  "a row is chosen the same alone and in rounds of any width, by any number of threads"_test = [] {
    Random random(7);
    for (const int n : {50, 1000, 2500})
      for (const bool adjusted : {false, true})
        for (const std::int32_t top_k : {0, 40}) {
          const Sampling sampling{.repetition = 1.7f, .frequency = 1.5f, .temperature = 0.5f, .top_k = top_k,
                                  .top_p = top_k ? 0.8f : 0.9f, .seed = 77};
          Choosing round{.logits = random_rows(random, 8, n, -5, 5), .sampling = &sampling, .emitted = 100};
          for (int r = 1; r < 8; ++r) {  // what row r would choose without its drafts
            round.drafts.push_back(random.below(n));
            round.logits[r][round.drafts.back()] = 7.0f;
          }
          if (adjusted) {
            round.counts.assign(n, 0);
            for (int i = 0; i < 40; ++i) ++round.counts[random.below(n)];
            round.masks.assign(8, std::vector<std::uint32_t>((n + 31) / 32));
            for (auto& mask : round.masks)
              for (std::uint32_t& word : mask) word = static_cast<std::uint32_t>(random.bits() | random.bits());
          }

          // Alone, the drafts before a row are history.
          Ids alone;
          for (int r = 0; r < 8; ++r) {
            Choosing one{.logits = {round.logits[r]}, .sampling = &sampling, .counts = round.counts,
                         .emitted = round.emitted + r};
            for (int i = 0; i < r && adjusted; ++i) ++one.counts[round.drafts[i]];
            if (adjusted) one.masks = {round.masks[r]};
            alone.push_back(choose(one).front());
          }
          for (int width = 1; width <= 8; ++width)
            for (const int threads : {32, 96, 512, 1024}) {
              Choosing some = round;
              some.logits.resize(width);
              some.masks.resize(adjusted ? std::max(2, width) : 0);  // at a stride
              some.drafts.resize(width - 1);
              const Ids expected(alone.begin(), alone.begin() + width);
              expect(choose(some, threads) == expected) << "width" << width << "by" << threads << "threads";
            }
        }
  };

  "a draft comes after those that are there and sees no mask"_test = [] {
    Random random(9);
    const int n = 60;
    Sampling sampling{.repetition = 1.5f, .frequency = 0.7f, .temperature = 1.0f, .top_k = 30};
    for (int drafts = 0; drafts < 7; ++drafts)
      for (int repetition = 0; repetition < 4; ++repetition) {
        sampling.seed = random.bits();
        Ids counts(n, 0), drafted;
        for (int i = 0; i < 30; ++i) ++counts[random.below(n)];
        for (int i = 0; i < drafts; ++i) drafted.push_back(random.below(n));
        const auto logits = random.floats(n, -3, 3);
        const Choosing draft{.logits = {logits}, .sampling = &sampling, .counts = counts,
                             .masks = {std::vector<std::uint32_t>(2, 0x100)}, .emitted = 20, .drafts = drafted, .slot = 1,
                             .draft = true};
        const graph::SelectRow row{.index = 20 + drafts, .drafted = drafted};
        expect(eq(choose(draft).front(), choose_one(choose_on_device, logits, {}, sampling, row, counts)));
      }
  };

  "the drafts of a block know neither each other nor masks"_test = [] {
    Random random(10);
    const int n = 60;
    Sampling sampling{.repetition = 1.5f, .frequency = 0.7f, .top_k = 30};
    for (int drafts = 1; drafts <= 7; ++drafts) {
      sampling.temperature = drafts % 2 ? 0.0f : 1.0f;
      sampling.seed = random.bits();
      Ids counts(n, 0);
      for (int i = 0; i < 30; ++i) ++counts[random.below(n)];
      const FloatRows logits(static_cast<std::size_t>(drafts) + 1, random.floats(n, -3, 3));
      const Ids before(7, choose_one(choose_on_device, logits[0], {}, sampling, {.index = 20}, counts));  // what they might avoid
      const Ids chosen = choose({.logits = logits, .sampling = &sampling, .counts = counts, .masks = {std::vector<std::uint32_t>(2, 0x100)},
                                 .emitted = 20, .drafts = before, .slot = 1, .block = true});
      expect(is_untouched(std::bit_cast<float>(chosen[0])));
      for (int i = 1; i <= drafts; ++i) {
        const auto row = static_cast<std::size_t>(i);
        expect(eq(chosen[row], choose_one(choose_on_device, logits[row], {}, sampling, {.index = 20 + i - 1}, counts))) << "draft" << i;
      }
    }
  };

  "biases of one token add up in their order, and those of no token are skipped"_test = [] {
    const std::pair<std::int32_t, float> bias[] = {{3, 1e30f}, {-1, 50.0f}, {5, 2.0f},  {3, -1e30f}, {40, 50.0f},
                                                   {3, 1.0f},  {7, 4.0f},   {7, -5.0f}, {5, 0.5f},   {1 << 30, 50.0f}};
    std::vector<float> logits(40, 0.0f);
    logits[3] = 2.0f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = bias}), 5)) << "3 lost what it had before its large biases";
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = std::span(bias).first(6)}), 5));
    logits[7] = 3.0f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = bias}), 5));
    logits[7] = 3.75f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = bias}), 7));
    std::vector<std::pair<std::int32_t, float>> many;  // more than there are threads
    for (int i = 0; i < 3000; ++i) many.emplace_back(i % 30, 0.25f);
    logits.assign(40, 0.0f);
    logits[29] = 0.125f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = many}), 29));
    logits[35] = 25.0f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = many}), 29));
    logits[35] = 25.25f;
    expect(eq(choose_one(choose_on_device, logits, {}, {.bias = many}), 35));
  };
};

// Rows of two tokens whose costs are almost equal: which of them is the cheaper tells how accurate noise and weights are.
struct CloseRaces {
  Choosing from{.logits = {}, .sampling = &sampling};
  Ids expected;

  // Adds the row of the next index, in which one token loses to the other, or wins, by so much.
  void add(std::int32_t token, std::int32_t other, double margin) {
    const auto index = static_cast<std::int64_t>(expected.size());
    const auto noise = [&](std::int32_t t) {
      return -std::log1p(-(~reference::noise_word(sampling.seed, index, 0, t) + 0.5) * 0x1p-32);
    };
    if (noise(token) > noise(other)) std::swap(token, other);
    // The costs are noise / exp(y) and noise of the other: equal at y = log(noise / noise of the other).
    const double y = std::log(noise(token) / noise(other));
    const auto rounded = static_cast<float>(y + margin);
    from.logits.push_back({0.0f, rounded});
    from.lists.push_back({other, token});
    expected.push_back(rounded > y ? token : other);
  }

  inline static const Sampling sampling{.temperature = 1.0f, .seed = 4321};
};

suite<"noise on the device"> noise_suite = [] {
  "noise and weights are as accurate as float32"_test = [] {
    Random random(12);
    CloseRaces races;
    for (int i = 0; i < 600; ++i) races.add(random.below(262144), random.below(262144), i % 2 ? 2e-6 : -2e-6);
    expect(choose(races.from) == races.expected);
  };

  "the least noise is accurate relative to itself"_test = [] {
    // The token of least noise among many, which in plain float32 would be a quarter off.
    std::int32_t least = 0;
    std::uint32_t word = 0;
    for (std::int32_t token = 0; token < 1 << 22; ++token) {
      const std::uint32_t other = reference::noise_word(CloseRaces::sampling.seed, 0, 0, token);
      if (other > word) word = other, least = token;
    }
    expect(word > 0xfffff000u) << word;
    for (const double margin : {-1e-5, 1e-5}) {
      CloseRaces races;
      races.add(12345, least, margin);
      expect(choose(races.from) == races.expected) << margin;
    }
  };

  "every part of the key matters"_test = [] {
    const std::vector<float> logits(1000, 0.0f);
    const Sampling sampling{.temperature = 1.0f, .seed = 0x123456789abcdef0u, .stream = 3};
    const std::int64_t index = (std::int64_t{5} << 32) + 9;
    const std::int32_t chosen = choose_one(choose_on_device, logits, {}, sampling, {.index = index});
    const std::vector<double> even(1000, 1e-3);
    for (int part = 0; part < 5; ++part) {
      Sampling changed = sampling;
      std::int64_t changed_index = index;
      if (part == 0) changed.seed ^= 1;
      if (part == 1) changed.seed ^= std::uint64_t{1} << 32;
      if (part == 2) changed.stream ^= 1;
      if (part == 3) changed_index ^= 1;
      if (part == 4) changed_index ^= std::int64_t{1} << 32;
      const auto pick = reference::pick(even, changed, changed_index);
      expect(eq(choose_one(choose_on_device, logits, {}, changed, {.index = changed_index}), pick.token)) << part;
      expect(pick.token != chosen) << part;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::sample_test
