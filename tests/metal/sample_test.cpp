// sample on the device, against its definition.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/random_settings.hpp"
#include "metal/sample_stage.hpp"
#include "reference/sample.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Sampling;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");
constexpr int kVocab = 262144;
constexpr double kClose = 2e-5;  // decisions closer than this may differ in float32

Ids largest(const FloatRows& logits) { return choose({.logits = logits}); }

suite<"largest logit on the device"> largest_suite = [] {
  "the largest logit is found wherever it is"_test = [] {
    Random random(1);
    for (const int n : {1, 2, 31, 32, 33, 1000, 1024, 1025, 4099}) {
      const auto noise = random.floats(n, -30, 30);
      FloatRows logits;
      Ids places;
      for (int place = 0; place < n; place += 1 + n / 60) {
        logits.push_back(noise);
        logits.back()[place] = 30.5f;
        places.push_back(place);
      }
      expect(largest(logits) == places) << "of" << n;
    }
  };

  "of equal logits the lowest id is chosen"_test = [] {
    Random random(2);
    for (const int n : {2, 33, 500, 3000}) {
      FloatRows logits = {std::vector<float>(n, -3.0f)};
      Ids first = {0};
      for (int round = 0; round < 30; ++round) {
        logits.emplace_back();
        for (int i = 0; i < n; ++i) logits.back().push_back(static_cast<float>(random.below(3)));
        first.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits.back()) - logits.back().begin()));
      }
      expect(largest(logits) == first) << "of" << n;
      const Sampling coldest{.seed = 5};
      expect(choose({.logits = logits, .sampling = &coldest}) == first) << "temperature 0 of" << n;
    }
  };

  "what is not a number is never the largest, and zeros are equal"_test = [] {
    std::vector<float> one_left(1000, kNaN);
    one_left[997] = -1e30f;
    expect(eq(largest({one_left}).front(), 997));
    expect(eq(largest({{-kInfinity, kNaN, -1e38f, -kInfinity}}).front(), 2));
    expect(eq(largest({{kNaN, 1.0f, -kNaN, 2.0f, kNaN, -kInfinity, 0.0f, 1.0f, 2.0f}}).front(), 3));
    expect(eq(largest({{-1.0f, -0.0f, 0.0f, -0.0f}}).front(), 1));
    expect(eq(largest({{-1.0f, 0.0f, -0.0f}}).front(), 1));
    expect(eq(largest({{-2.0f, -1.0f, -1.5f, -1e-38f, -3.0f}}).front(), 3));
  };

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
};

// A round of random rows under random settings, and what the definition says about it.
struct RandomRound : RandomSettings {
  Choosing from;

  RandomRound(Random& random, int n) : RandomSettings(random, n, n), shares_mask(random.chance(3)) {
    from = {.logits = {}, .sampling = &sampling, .counts = counts, .emitted = index, .drafts = drafted,
            .slot = random.below(3)};
    const bool coarse = random.chance(3);  // many equal logits
    for (std::size_t r = 0; r <= drafted.size(); ++r) {
      from.logits.emplace_back();
      for (int i = 0; i < n; ++i) {
        const double logit = random.uniform(-8, 8);
        const auto rounded = static_cast<float>(coarse ? std::round(logit) : logit);
        from.logits.back().push_back(random.chance(40) ? -kInfinity : rounded);
      }
      from.logits.back()[random.below(n)] = 9.0f;
      if (mask.empty() || (shares_mask && r > 0)) continue;
      from.masks.push_back(mask);
      for (std::uint32_t& word : from.masks.back()) word |= static_cast<std::uint32_t>(random.bits() & random.bits());
    }
  }

  graph::SelectRow row(std::size_t r) const {
    const std::span<const std::int32_t> before(from.drafts);
    graph::SelectRow row{.index = from.emitted + static_cast<std::int64_t>(r), .drafted = before.first(r)};
    if (!from.masks.empty()) row.mask = from.masks[shares_mask ? 0 : r];
    return row;
  }

 private:
  bool shares_mask;  // one for all rows
};

suite<"sample on the device"> sample_suite = [] {
  "any settings choose the token of the definition, in every row of a round"_test = [] {
    Random random(5);
    int compared = 0, close = 0;
    for (int round = 0; round < 250; ++round) {
      const RandomRound request(random, 1 + random.below(round % 10 ? 300 : 3000));
      const Ids chosen = choose(request.from);
      for (std::size_t r = 0; r < chosen.size(); ++r) {
        const graph::SelectRow row = request.row(r);
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
    expect(compared > 800 && close < 20) << compared << "compared," << close << "too close to call";
  };

  "a whole vocabulary is sampled as defined, with each truncation and with none"_test = [] {
    Random random(6);
    std::vector<float> logits = random.floats(kVocab, -8, 8);
    for (int i = 0; i < 20; ++i) logits[random.below(kVocab)] = static_cast<float>(random.uniform(10, 16));
    const std::vector<float> flat(kVocab, 1.5f);
    const Sampling settings[] = {
        {.temperature = 1.0f},
        {.temperature = 1.0f, .top_k = 64, .top_p = 0.95f},
        {.temperature = 1.5f, .top_k = 5000},
        {.temperature = 1.0f, .top_p = 0.95f},
        {.temperature = 1.0f, .min_p = 0.01f},
        {.temperature = 1.0f, .top_k = 200000, .top_p = 0.9f, .min_p = 1e-6f},
    };
    int compared = 0;
    for (const Sampling& sampling : settings)
      for (const bool even : {false, true}) {
        const std::vector<float>& row_logits = even ? flat : logits;
        const auto expected = reference::distribution(row_logits, {sampling, {}, {}}, {});
        const Ids chosen = choose_at_indices(2, row_logits, {}, sampling);
        for (std::int64_t index = 0; index < 2; ++index) {
          const auto pick = reference::pick(expected.probabilities, sampling, index);
          if (pick.margin < kClose) continue;
          expect(eq(chosen[index], pick.token)) << "temperature" << sampling.temperature << "top-k" << sampling.top_k;
          ++compared;
        }
      }
    expect(compared > 20) << compared;
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

  "drafted tokens count like history"_test = [] {
    Random random(8);
    const int n = 40;
    Sampling sampling{.repetition = 1.7f, .presence = 0.5f, .frequency = 0.6f, .temperature = 1.0f};
    int moved = 0;
    for (int round = 0; round < 150; ++round) {
      const auto logits = random.floats(n, -3, 3);
      Ids before(n, 0), drafted;
      for (int i = 0; i < 20; ++i) ++before[random.below(n)];
      Ids after = before;
      for (int i = 0; i < 7; ++i) {
        drafted.push_back(random.below(n / 4));
        ++after[drafted.back()];
      }
      sampling.seed = random.bits();
      const auto with_drafts = choose_one(logits, sampling, {.index = round, .drafted = drafted}, before);
      expect(eq(with_drafts, choose_one(logits, sampling, {.index = round}, after)));
      moved += with_drafts != choose_one(logits, sampling, {.index = round}, before);
    }
    expect(moved > 10) << moved << "times drafts mattered";
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
        expect(eq(choose(draft).front(), choose_one(logits, sampling, {.index = 20 + drafts, .drafted = drafted}, counts)));
      }
  };

  "biases of one token add up in their order, and those of no token are skipped"_test = [] {
    const std::pair<std::int32_t, float> bias[] = {{3, 1e30f}, {-1, 50.0f}, {5, 2.0f},  {3, -1e30f}, {40, 50.0f},
                                                   {3, 1.0f},  {7, 4.0f},   {7, -5.0f}, {5, 0.5f},   {1 << 30, 50.0f}};
    std::vector<float> logits(40, 0.0f);
    logits[3] = 2.0f;
    expect(eq(choose_one(logits, {.bias = bias}), 5)) << "3 lost what it had before its large biases";
    expect(eq(choose_one(logits, {.bias = std::span(bias).first(6)}), 5));
    logits[7] = 3.0f;
    expect(eq(choose_one(logits, {.bias = bias}), 5));
    logits[7] = 3.75f;
    expect(eq(choose_one(logits, {.bias = bias}), 7));
    std::vector<std::pair<std::int32_t, float>> many;  // more than there are threads
    for (int i = 0; i < 3000; ++i) many.emplace_back(i % 30, 0.25f);
    logits.assign(40, 0.0f);
    logits[29] = 0.125f;
    expect(eq(choose_one(logits, {.bias = many}), 29));
    logits[35] = 25.0f;
    expect(eq(choose_one(logits, {.bias = many}), 29));
    logits[35] = 25.25f;
    expect(eq(choose_one(logits, {.bias = many}), 35));
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
    for (int i = 0; i < 600; ++i) races.add(random.below(kVocab), random.below(kVocab), i % 2 ? 2e-6 : -2e-6);
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
    const std::int32_t chosen = choose_one(logits, sampling, {.index = index});
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
      expect(eq(choose_one(logits, changed, {.index = changed_index}), pick.token)) << part;
      expect(pick.token != chosen) << part;
    }
  };
};

suite<"sample on the device at its limits"> limits_suite = [] {
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
    const std::vector<std::uint32_t> none = {0}, from_3 = {0x3f8}, all = {0x3ff};
    const Ids early = {0, 1, 3, 77, -1}, every = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    every_way([&](Sampling sampling) {
      const FloatRows logits = {nothing, numbers, nothing, nothing};
      const Masks masks = {none, none, from_3, all};
      expect(choose({.logits = logits, .sampling = &sampling, .masks = masks}) == Ids{0, 0, 3, 0});
      expect(choose({.logits = {nothing}, .sampling = &sampling}) == Ids{0});
      sampling.suppressed = early;
      expect(choose({.logits = logits, .sampling = &sampling, .masks = masks}) == Ids{0, 0, 4, 2});
      sampling.suppressed = every;
      expect(choose({.logits = {numbers, nothing}, .sampling = &sampling}) == Ids{0, 0});
    });
  };

  "the only token left is chosen, and an infinite logit wins"_test = [every_way] {
    const std::vector<std::uint32_t> only_70 = {0, 0, 1u << 6, 0}, all(4, ~0u);
    std::vector<float> one(100, -kInfinity), infinite(100, 2.0f);
    one[70] = -1e30f;
    infinite[33] = infinite[55] = kInfinity;
    every_way([&](const Sampling& sampling) {
      expect(choose({.logits = {std::vector<float>(100, 2.0f), one, infinite}, .sampling = &sampling,
                     .masks = {only_70, all, all}}) == Ids{70, 70, 33});
      expect(choose({.logits = {one, infinite}, .sampling = &sampling}) == Ids{70, 33});
    });
  };

  "a tiny temperature is the largest logit, a huge one is even"_test = [] {
    Random random(10);
    const auto logits = random.floats(20, -5, 5);
    expect(choose_at_indices(200, logits, {}, {.temperature = 1e-39f}) == Ids(200, largest({logits}).front()));
    std::vector<int> times(20, 0);
    for (const std::int32_t token : choose_at_indices(2000, logits, {}, {.temperature = 1e30f})) ++times[token];
    for (const int count : times) expect(count > 60 && count < 140) << count;
  };

  "what meets a threshold exactly belongs to it"_test = [] {
    const auto kinds = [](const Sampling& sampling) {
      std::vector<bool> seen(16, false);
      const Ids chosen = choose_at_indices(400, std::vector<float>(16, 1.0f), {}, sampling);
      for (const std::int32_t token : chosen) seen[token] = true;
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
    const Ids suppressed = {0, 5, 63, 64, 199, 200, 1 << 30, -5};
    std::vector<std::uint32_t> mask(7, ~0u);
    mask[3] = 0;
    mask[6] = 0xf0;
    std::vector<int> times(200, 0);
    const Sampling sampling{.suppressed = suppressed, .temperature = 2.0f};
    const Ids chosen = choose_at_indices(3000, random.floats(200, -1, 1), {}, sampling, {mask});
    for (const std::int32_t token : chosen) ++times[token];
    for (int token = 0; token < 200; ++token) {
      const bool masked = !(mask[token / 32] >> (token % 32) & 1);
      const bool hidden = masked || std::ranges::find(suppressed, token) != suppressed.end();
      expect(hidden == (times[token] == 0)) << token;
    }
  };
};

}  // namespace
}  // namespace lapidary::test
