// sample of a backend where the logits are those of all tokens, against its definition.
#pragma once

#include "reference/sample.hpp"
#include "support/choosing.hpp"

namespace lapidary::test {

inline constexpr double kClose = 2e-5;  // decisions closer than this may differ in float32

// most_places: where the largest logit is looked for
inline void test_largest_logit(const Choose& choose, int most_places) {
  using namespace boost::ut;
  const auto largest = [&](const FloatRows& logits) { return choose({.logits = logits}); };

  "the largest logit is found wherever it is"_test = [&] {
    Random random(1);
    for (const int n : {1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 100, 1000, 1024, 1025, 4099, 9001}) {
      const auto noise = random.floats(n, -30, 30);
      FloatRows logits;
      Ids places;
      for (int place = 0; place < n; place += 1 + n / most_places) {
        logits.push_back(noise);
        logits.back()[place] = 30.5f;
        places.push_back(place);
      }
      expect(largest(logits) == places) << "of" << n;
    }
  };

  "of equal logits the lowest id is chosen"_test = [&] {
    Random random(2);
    for (const int n : {2, 8, 33, 500, 3000}) {
      FloatRows logits = {std::vector<float>(n, -3.0f)};
      Ids first = {0};
      for (int round = 0; round < 50; ++round) {
        logits.emplace_back();
        for (int i = 0; i < n; ++i) logits.back().push_back(static_cast<float>(random.below(3)));
        first.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits.back()) - logits.back().begin()));
      }
      expect(largest(logits) == first) << "of" << n;
      const graph::Sampling coldest{.seed = 5};
      expect(choose({.logits = logits, .sampling = &coldest}) == first) << "temperature 0 of" << n;
    }
  };

  "what is not a number is never the largest, and zeros are equal"_test = [&] {
    std::vector<float> one_left(1000, kNaN);
    one_left[997] = -1e30f;
    expect(eq(largest({one_left}).front(), 997));
    expect(eq(largest({{-5.0f, -4.0f, -1e30f, -4.0f, -7.0f}}).front(), 1));
    expect(eq(largest({{-kInfinity, kNaN, -1e38f, -kInfinity}}).front(), 2));
    expect(eq(largest({{kNaN, 1.0f, -kNaN, 2.0f, kNaN, -kInfinity, 0.0f, 1.0f, 2.0f}}).front(), 3));
    expect(eq(largest({{-1.0f, -0.0f, 0.0f, -0.0f}}).front(), 1));
    expect(eq(largest({{-1.0f, 0.0f, -0.0f}}).front(), 1));
    expect(eq(largest({{-2.0f, -1.0f, -1.5f, -1e-38f, -3.0f}}).front(), 3));
  };
}

// indices: at which a whole vocabulary is sampled
inline void test_sample(const Choose& choose, int rounds, int indices) {
  using namespace boost::ut;
  using graph::Sampling;

  "any settings choose the token of the definition, in every row of a round"_test = [&] {
    Random random(5);
    int compared = 0, close = 0;
    for (int round = 0; round < rounds; ++round) {
      const auto request = RandomRound::of_all(random, 1 + random.below(round % 10 ? 300 : 3000));
      const Ids chosen = choose(request.from);
      for (std::size_t r = 0; r < chosen.size(); ++r) {
        const graph::SelectRow row = request.from.row(r);
        const graph::Selection selection{request.sampling, request.counts, {&row, 1}};
        const auto y = reference::adjusted(request.from.logits[r], selection, row);
        if (*std::ranges::max_element(y) == -INFINITY) continue;
        const auto expected = reference::distribution(y, request.sampling);
        const auto pick = reference::pick(expected.probabilities, request.sampling, row.index);
        if (expected.gap < kClose || pick.margin < kClose) {
          ++close;
          continue;
        }
        ++compared;
        expect(eq(chosen[r], pick.token)) << "row" << r << "of round" << round;
      }
    }
    expect(compared > 3 * rounds && close < rounds / 12) << compared << "compared," << close << "too close to call";
  };

  "a whole vocabulary is sampled as defined, with each truncation and with none"_test = [&] {
    Random random(6);
    const int vocab = 262144;
    std::vector<float> logits = random.floats(vocab, -8, 8);
    for (int i = 0; i < 20; ++i) logits[random.below(vocab)] = static_cast<float>(random.uniform(10, 16));
    const std::vector<float> flat(vocab, 1.5f);
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
        const Ids chosen = choose_at_indices(choose, indices, row_logits, {}, sampling);
        for (int index = 0; index < indices; ++index) {
          const auto pick = reference::pick(expected.probabilities, sampling, index);
          if (pick.margin < kClose) continue;
          expect(eq(chosen[index], pick.token)) << "temperature" << sampling.temperature << "top-k" << sampling.top_k;
          ++compared;
        }
      }
    expect(compared > 13 * indices) << compared;
  };

  "drafted tokens count like history"_test = [&] {
    Random random(8);
    const int n = 40;
    Sampling sampling{.repetition = 1.7f, .presence = 0.5f, .frequency = 0.6f, .temperature = 1.0f};
    int moved = 0;
    for (int round = 0; round < 200; ++round) {
      const auto logits = random.floats(n, -3, 3);
      Ids before(n, 0), drafted;
      for (int i = 0; i < 20; ++i) ++before[random.below(n)];
      Ids after = before;
      for (int i = 0; i < 7; ++i) {
        drafted.push_back(random.below(n / 4));
        ++after[drafted.back()];
      }
      sampling.seed = random.bits();
      const auto with_drafts = choose_one(choose, logits, {}, sampling, {.index = round, .drafted = drafted}, before);
      expect(eq(with_drafts, choose_one(choose, logits, {}, sampling, {.index = round}, after)));
      moved += with_drafts != choose_one(choose, logits, {}, sampling, {.index = round}, before);
    }
    expect(moved > 20) << moved << "times drafts mattered";
  };
}

inline void test_sample_limits(const Choose& choose) {
  using namespace boost::ut;
  using graph::Sampling;
  const auto every_way = [](auto&& check) {
    for (const float temperature : {0.0f, 1e-40f, 1e-20f, 1.0f, 1e30f, kInfinity})
      for (const std::int32_t top_k : {0, 1, 3, INT32_MAX})
        for (const float top_p : {0.0f, 0.5f, 1.0f})
          for (const float min_p : {0.0f, 1.0f})
            check(Sampling{.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p});
  };

  "where logits say nothing, the first allowed token is chosen, or 0"_test = [&] {
    const std::vector<float> nothing = {kNaN, -kInfinity, kNaN, -kInfinity, kNaN, kNaN, kNaN, kNaN, kNaN, -kInfinity};
    const std::vector<float> numbers(10, 1.0f);
    const std::vector<std::uint32_t> none = {0}, from_3 = {0x3f8}, all = {0x3ff};
    const Ids early = {0, 1, 3, 77, -1}, every = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    every_way([&](Sampling sampling) {
      const FloatRows logits = {nothing, numbers, nothing, nothing};
      const Masks masks = {none, none, from_3, all};
      expect(choose({.logits = logits, .sampling = &sampling, .masks = masks}) == Ids{0, 0, 3, 0});
      expect(choose({.logits = {nothing}, .sampling = &sampling}) == Ids{0});
      sampling.suppressed = early;
      expect(choose({.logits = logits, .sampling = &sampling, .masks = masks}) == Ids{0, 0, 4, 2});
      expect(choose({.logits = {nothing}, .sampling = &sampling}) == Ids{2});
      sampling.suppressed = every;
      expect(choose({.logits = {numbers, nothing}, .sampling = &sampling}) == Ids{0, 0});
    });
  };

  "the only token left is chosen"_test = [&] {
    const std::vector<std::uint32_t> only_70 = {0, 0, 1u << 6, 0}, all(4, ~0u);
    std::vector<float> one(100, -kInfinity);
    one[70] = -1e30f;
    every_way([&](const Sampling& sampling) {
      expect(choose({.logits = {std::vector<float>(100, 2.0f), one}, .sampling = &sampling, .masks = {only_70, all}}) ==
             Ids{70, 70});
      expect(choose({.logits = {one}, .sampling = &sampling}) == Ids{70});
    });
  };

  "an infinite logit wins"_test = [&] {
    std::vector<float> logits(100, 2.0f);
    logits[33] = logits[55] = kInfinity;
    every_way([&](const Sampling& sampling) { expect(choose({.logits = {logits}, .sampling = &sampling}) == Ids{33}); });
  };

  "a tiny temperature is the largest logit, a huge one is even"_test = [&] {
    Random random(10);
    const auto logits = random.floats(20, -5, 5);
    const std::int32_t largest = choose({.logits = {logits}}).front();
    expect(choose_at_indices(choose, 2000, logits, {}, {.temperature = 1e-39f}) == Ids(2000, largest));
    std::vector<int> times(20, 0);
    for (const std::int32_t token : choose_at_indices(choose, 2000, logits, {}, {.temperature = 1e30f})) ++times[token];
    for (const int count : times) expect(count > 60 && count < 140) << count;
  };

  "what meets a threshold exactly belongs to it"_test = [&] {
    const auto kinds = [&](const Sampling& sampling) {
      std::vector<bool> seen(16, false);
      for (const std::int32_t token : choose_at_indices(choose, 500, std::vector<float>(16, 1.0f), {}, sampling))
        seen[token] = true;
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

  "hidden tokens are never chosen"_test = [&] {
    Random random(11);
    const Ids suppressed = {0, 5, 63, 64, 199, 200, 1 << 30, -5};
    std::vector<std::uint32_t> mask(7, ~0u);
    mask[3] = 0;
    mask[6] = 0xf0;
    std::vector<int> times(200, 0);
    const Sampling sampling{.suppressed = suppressed, .temperature = 2.0f};
    const Ids chosen = choose_at_indices(choose, 3000, random.floats(200, -1, 1), {}, sampling, {mask});
    for (const std::int32_t token : chosen) ++times[token];
    for (int token = 0; token < 200; ++token) {
      const bool masked = !(mask[token / 32] >> (token % 32) & 1);
      const bool hidden = masked || std::ranges::find(suppressed, token) != suppressed.end();
      expect(hidden == (times[token] == 0)) << token;
    }
  };
}

}  // namespace lapidary::test
