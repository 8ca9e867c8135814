// sample on the device where the logits are those of a list of tokens, against its definition, and the golden picks.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/golden_sampling.hpp"
#include "cpu/noise.hpp"
#include "cpu/random_settings.hpp"
#include "metal/sample_stage.hpp"
#include "reference/sample.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Sampling;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");
constexpr double kClose = 2e-5;  // decisions closer than this may differ in float32

// Different tokens below `vocab`, in random order.
Ids random_list(Random& random, int count, int vocab) {
  const auto picked = random.pick(count, vocab);
  return {picked.begin(), picked.end()};
}

// Random settings for the rows of a round, each with a list of its own.
struct RandomRound : RandomSettings {
  int vocab;
  Choosing from;

  RandomRound(Random& random, int vocab_size) : RandomRound(random, vocab_size, 1 + random.below(vocab_size)) {}

  graph::SelectRow row(std::size_t r) const {
    return {index + static_cast<std::int64_t>(r), std::span(drafted).first(r), mask};
  }

 private:
  RandomRound(Random& random, int vocab_size, int listed) : RandomSettings(random, vocab_size, listed), vocab(vocab_size) {
    from = {.logits = {}, .sampling = &sampling, .counts = counts, .emitted = index, .drafts = drafted};
    if (!mask.empty()) from.masks = {mask};
    const bool coarse = random.chance(3);  // many equal logits
    for (std::size_t r = 0; r <= drafted.size(); ++r) {
      from.lists.push_back(random_list(random, listed, vocab_size));
      from.logits.emplace_back();
      for (int i = 0; i < listed; ++i) {
        const double logit = random.uniform(-8, 8);
        from.logits.back().push_back(random.chance(40) ? random.chance(2) ? kNaN : -kInfinity
                                                       : static_cast<float>(coarse ? std::round(logit) : logit));
      }
    }
  }
};

suite<"sample from a list on the device"> listed_suite = [] {
  "any settings choose the token of the definition from a list"_test = [] {
    Random random(1);
    int compared = 0, close = 0, nothing = 0;
    for (int round = 0; round < 250; ++round) {
      const RandomRound request(random, 1 + random.below(300));
      const Ids chosen = choose(request.from);
      for (std::size_t r = 0; r < chosen.size(); ++r) {
        const graph::SelectRow row = request.row(r);
        const graph::Selection selection{request.sampling, request.counts, {&row, 1}};
        const Ids& tokens = request.from.lists[r];
        const auto y = reference::adjusted_listed(request.from.logits[r], tokens, request.vocab, selection, row);
        if (*std::ranges::max_element(y) == -INFINITY) {
          ++nothing;
          continue;
        }
        const auto expected = reference::distribution(y, request.sampling);
        const auto pick = reference::pick(expected.probabilities, request.sampling, row.index, tokens);
        if (expected.gap < kClose || pick.margin < kClose) {
          ++close;
          continue;
        }
        ++compared;
        expect(eq(chosen[r], pick.token)) << "row" << r << "of round" << round;
      }
    }
    expect(compared > 800 && close < 20 && nothing < 100) << compared << "compared," << close << "too close," << nothing;
  };

  "the tokens of 32 clusters are sampled as defined, with each truncation and with none"_test = [] {
    Random random(2);
    const Ids tokens = random_list(random, 4096, 262144);
    std::vector<float> logits = random.floats(4096, -8, 8);
    for (int i = 0; i < 20; ++i) logits[random.below(4096)] = static_cast<float>(random.uniform(10, 14));
    int compared = 0;
    for (const Sampling& sampling : {Sampling{.temperature = 1.0f}, Sampling{.temperature = 5.0f},
                                     Sampling{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f},
                                     Sampling{.temperature = 2.0f, .top_k = 2000},
                                     Sampling{.temperature = 2.0f, .top_p = 0.9f},
                                     Sampling{.temperature = 3.0f, .min_p = 0.01f}}) {
      const auto expected = reference::distribution(doubles(logits), sampling);
      const Ids chosen = choose_at_indices(10, logits, tokens, sampling);
      for (std::int64_t index = 0; index < 10; ++index) {
        const auto pick = reference::pick(expected.probabilities, sampling, index, tokens);
        if (expected.gap < kClose || pick.margin < kClose) continue;
        expect(eq(chosen[index], pick.token)) << "temperature" << sampling.temperature;
        ++compared;
      }
    }
    expect(compared > 50) << compared;
  };

  "of equal logits the earlier in the list is chosen, with a request and without"_test = [] {
    Random random(3);
    for (const int n : {2, 33, 500, 3000}) {
      Choosing from{.logits = {}};
      Ids expected;
      for (int round = 0; round < 20; ++round) {
        from.lists.push_back(random_list(random, n, 2 * n));
        from.logits.emplace_back();
        for (int i = 0; i < n; ++i) from.logits.back().push_back(static_cast<float>(random.below(3)));
        const auto first = std::ranges::max_element(from.logits.back()) - from.logits.back().begin();
        expected.push_back(from.lists.back()[first]);
      }
      expect(choose(from) == expected) << "of" << n;
      const Sampling coldest{.seed = 5};
      from.sampling = &coldest;
      expect(choose(from) == expected) << "temperature 0 of" << n;
    }
  };

  "of equal logits the earlier in the list survive top-k and top-p"_test = [] {
    const Ids tokens = {90, 7, 13, 200, 2, 55, 1, 31, 64, 63, 150, 0, 255, 32, 8, 100};
    const auto survivors = [&](const Sampling& sampling) {
      std::vector<bool> seen(tokens.size(), false);
      for (const std::int32_t token : choose_at_indices(400, std::vector<float>(tokens.size(), 1.0f), tokens, sampling))
        seen[std::ranges::find(tokens, token) - tokens.begin()] = true;
      const auto end = std::find(seen.begin(), seen.end(), false);
      expect(std::find(end, seen.end(), true) == seen.end()) << "the earlier places come first";
      return end - seen.begin();
    };
    expect(survivors({.temperature = 1.0f}) == 16);
    expect(survivors({.temperature = 1.0f, .top_p = 0.5f}) == 8);
    expect(survivors({.temperature = 1.0f, .top_k = 8, .top_p = 0.25f}) == 2);
    expect(survivors({.temperature = 1.0f, .top_k = 5, .min_p = 1.0f}) == 5);
  };

  "of equal costs the earlier in the list is chosen"_test = [] {
    const Sampling sampling{.temperature = 1.0f, .seed = 9};
    std::vector<std::pair<float, std::int32_t>> noise;  // some of so many are equal
    for (std::int32_t token = 0; token < 1 << 16; ++token)
      noise.emplace_back(cpu::exponential(reference::noise_word(sampling.seed, 0, sampling.stream, token)), token);
    std::ranges::sort(noise);
    int ties = 0;
    for (std::size_t i = 1; i < noise.size(); ++i) {
      if (noise[i].first != noise[i - 1].first) continue;
      for (const Ids& tokens : {Ids{noise[i].second, noise[i - 1].second}, Ids{noise[i - 1].second, noise[i].second}})
        expect(eq(choose_one(std::vector<float>(2, 0.5f), tokens, sampling), tokens.front()));
      ++ties;
    }
    expect(ties > 10) << ties;
  };

  "noise belongs to a token, not to its place: a list of all chooses as no list does"_test = [] {
    Random random(4);
    for (int round = 0; round < 100; ++round) {
      RandomSettings settings(random, 200, 200);
      const Ids shuffled = random_list(random, 200, 200);
      const std::vector<float> all = random.floats(200, -4, 4);
      std::vector<float> logits;
      for (const std::int32_t token : shuffled) logits.push_back(all[token]);
      expect(eq(choose_one(logits, shuffled, settings.sampling, settings.row(), settings.counts),
                choose_one(all, settings.sampling, settings.row(), settings.counts)))
          << "round" << round;
    }
  };

  "where logits say nothing, the first allowed token of the list is chosen, or its first"_test = [] {
    const Ids tokens = {40, 3, 70, 12, 5, 33};
    const std::vector<float> nothing = {kNaN, -kInfinity, kNaN, kNaN, -kInfinity, kNaN}, numbers(6, 1.0f);
    const std::vector<std::uint32_t> none = {0, 0, 0}, all = {~0u, ~0u, ~0u};
    const std::vector<std::uint32_t> some = {1u << 12 | 1u << 5, 1u << 1, 0};  // 12, 5 and 33
    const Ids early = {40, 3, 12};
    for (const float temperature : {0.0f, 1e-20f, 1.0f, kInfinity})
      for (const std::int32_t top_k : {0, 1, 3})
        for (const float top_p : {0.0f, 1.0f})
          for (const float repetition : {1.0f, 1.5f}) {
            Sampling sampling{.repetition = repetition, .temperature = temperature, .top_k = top_k, .top_p = top_p};
            Choosing from{.logits = {nothing, numbers, nothing}, .lists = IdRows(3, tokens), .sampling = &sampling,
                          .counts = Ids(96, 1), .masks = {all, none, some}};
            expect(choose(from) == Ids{40, 40, 12});
            sampling.suppressed = early;
            expect(choose(from) == Ids{70, 40, 5});
            sampling.suppressed = tokens;
            expect(choose(from) == Ids{40, 40, 40});
          }
    expect(eq(choose({.logits = {nothing}, .lists = {tokens}}).front(), 40));
  };

  "a row with a list of its own is chosen the same alone and in rounds of any width, by any number of threads"_test = [] {
    Random random(6);
    const int vocab = 700, n = 200;
    const Sampling sampling{.repetition = 1.7f, .frequency = 1.5f, .temperature = 0.5f, .top_p = 0.9f, .seed = 3};
    Choosing round{.logits = random_rows(random, 8, n, -5, 5), .sampling = &sampling, .counts = Ids(vocab, 0),
                   .emitted = 100};
    for (int i = 0; i < 400; ++i) ++round.counts[random.below(vocab)];
    for (int r = 0; r < 8; ++r) round.lists.push_back(random_list(random, n, vocab));
    for (int r = 1; r < 8; ++r) {  // what row r would choose without its drafts
      round.drafts.push_back(round.lists[r][r]);
      round.logits[r][r] = 7.0f;
    }
    Ids alone;
    for (int r = 0; r < 8; ++r) {
      Choosing one{.logits = {round.logits[r]}, .lists = {round.lists[r]}, .sampling = &sampling, .counts = round.counts,
                   .emitted = round.emitted + r};
      for (int i = 0; i < r; ++i) ++one.counts[round.drafts[i]];
      alone.push_back(choose(one).front());
    }
    for (int width = 1; width <= 8; ++width)
      for (const int threads : {32, 96, 512, 1024}) {
        Choosing some = round;
        some.logits.resize(width);
        some.lists.resize(width);
        some.drafts.resize(width - 1);
        expect(choose(some, threads) == Ids(alone.begin(), alone.begin() + width)) << "width" << width << "by" << threads;
      }
  };
};

suite<"golden sampling on the device"> golden_suite = [] {
  "picks are the golden ones"_test = [] {
    int picks = 0;
    for_each_golden_case([&](GoldenCase& one, simdjson::dom::element entry) {
      if (double(entry["edge_gap"]) < 1e-6) return;  // may go either way
      for (const simdjson::dom::element pick : entry["picks"]) {
        one.sampling.seed = std::stoull(std::string(std::string_view(pick["seed"])));
        one.sampling.stream = static_cast<std::uint32_t>(std::uint64_t(pick["stream"]));
        expect(eq(choose_one(one.logits, one.sampling, {.index = std::int64_t(pick["index"])}, one.counts),
                  static_cast<std::int32_t>(std::int64_t(pick["token"]))))
            << one.name;
        ++picks;
      }
    });
    expect(picks > 900) << picks;
  };
};

}  // namespace
}  // namespace lapidary::test
