// sample of a backend where the logits are those of a list of tokens, against its definition, and the golden picks.
#pragma once

#include "numeric/noise.hpp"
#include "support/golden_sampling.hpp"
#include "support/sample_cases.hpp"

namespace lapidary::test {

inline void test_listed(const Choose& choose, int rounds) {
  using namespace boost::ut;
  using graph::Sampling;

  "any settings choose the token of the definition from a list"_test = [&] {
    Random random(1);
    int compared = 0, close = 0, nothing = 0;
    for (int round = 0; round < rounds; ++round) {
      const auto request = RandomRound::of_lists(random, 1 + random.below(300));
      const Ids chosen = choose(request.from);
      for (std::size_t r = 0; r < chosen.size(); ++r) {
        const graph::SelectRow row = request.from.row(r);
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
    expect(compared > 3 * rounds && close < rounds / 12 && nothing < rounds / 2)
        << compared << "compared," << close << "too close," << nothing;
  };

  "the tokens of 32 clusters are sampled as defined, with each truncation and with none"_test = [&] {
    Random random(2);
    const Ids tokens = random_ids(random, 4096, 262144);
    std::vector<float> logits = random.floats(4096, -8, 8);
    for (int i = 0; i < 20; ++i) logits[random.below(4096)] = static_cast<float>(random.uniform(10, 14));
    int compared = 0;
    for (const Sampling& sampling : {Sampling{.temperature = 1.0f}, Sampling{.temperature = 5.0f},
                                     Sampling{.temperature = 1.0f, .top_k = 64, .top_p = 0.95f},
                                     Sampling{.temperature = 2.0f, .top_k = 2000},
                                     Sampling{.temperature = 2.0f, .top_p = 0.9f},
                                     Sampling{.temperature = 3.0f, .min_p = 0.01f}}) {
      const auto expected = reference::distribution(doubles(logits), sampling);
      const Ids chosen = choose_at_indices(choose, 10, logits, tokens, sampling);
      for (int index = 0; index < 10; ++index) {
        const auto pick = reference::pick(expected.probabilities, sampling, index, tokens);
        if (expected.gap < kClose || pick.margin < kClose) continue;
        expect(eq(chosen[index], pick.token)) << "temperature" << sampling.temperature;
        ++compared;
      }
    }
    expect(compared > 50) << compared;
  };

  "of equal logits the earlier in the list is chosen, with a request and without"_test = [&] {
    Random random(3);
    for (const int n : {2, 8, 33, 500, 3000}) {
      Choosing from{.logits = {}};
      Ids expected;
      for (int round = 0; round < 30; ++round) {
        from.lists.push_back(random_ids(random, n, 2 * n));
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

  "of equal logits the earlier in the list survive top-k and top-p"_test = [&] {
    const Ids tokens = {90, 7, 13, 200, 2, 55, 1, 31, 64, 63, 150, 0, 255, 32, 8, 100};
    const auto survivors = [&](const Sampling& sampling) {
      std::vector<bool> seen(tokens.size(), false);
      const std::vector<float> even(tokens.size(), 1.0f);
      for (const std::int32_t token : choose_at_indices(choose, 500, even, tokens, sampling))
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

  "of equal costs the earlier in the list is chosen"_test = [&] {
    const Sampling sampling{.temperature = 1.0f, .seed = 9};
    std::vector<std::pair<float, std::int32_t>> noise;  // some of so many are equal
    for (std::int32_t token = 0; token < 1 << 16; ++token)
      noise.emplace_back(numeric::exponential(reference::noise_word(sampling.seed, 0, sampling.stream, token)), token);
    std::ranges::sort(noise);
    int ties = 0;
    for (std::size_t i = 1; i < noise.size(); ++i) {
      if (noise[i].first != noise[i - 1].first) continue;
      for (const Ids& tokens : {Ids{noise[i].second, noise[i - 1].second}, Ids{noise[i - 1].second, noise[i].second}})
        expect(eq(choose_one(choose, std::vector<float>(2, 0.5f), tokens, sampling), tokens.front()));
      ++ties;
    }
    expect(ties > 10) << ties;
  };

  "noise belongs to a token, not to its place: a list of all chooses as no list does"_test = [&] {
    Random random(4);
    for (int round = 0; round < 300; ++round) {
      const int n = 1 + random.below(200);
      const RandomSettings settings(random, n, n);
      const Ids shuffled = random_ids(random, n, n);
      const std::vector<float> all = random.floats(n, -4, 4);
      std::vector<float> logits;
      for (const std::int32_t token : shuffled) logits.push_back(all[token]);
      const graph::SelectRow row = settings.row();
      const auto y = reference::adjusted(all, {settings.sampling, settings.counts, {&row, 1}}, row);
      if (*std::ranges::max_element(y) == -INFINITY) continue;
      expect(eq(choose_one(choose, logits, shuffled, settings.sampling, row, settings.counts),
                choose_one(choose, all, {}, settings.sampling, row, settings.counts)))
          << "round" << round;
    }
  };

  "where logits say nothing, the first allowed token of the list is chosen, or its first"_test = [&] {
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
            const Choosing from{.logits = {nothing, numbers, nothing}, .lists = IdRows(3, tokens), .sampling = &sampling,
                                .counts = Ids(96, 1), .masks = {all, none, some}};
            const Choosing unmasked{.logits = {nothing}, .lists = {tokens}, .sampling = &sampling, .counts = Ids(96, 1)};
            expect(choose(from) == Ids{40, 40, 12} && choose(unmasked) == Ids{40});
            sampling.suppressed = early;
            expect(choose(from) == Ids{70, 40, 5} && choose(unmasked) == Ids{70});
            sampling.suppressed = tokens;
            expect(choose(from) == Ids{40, 40, 40} && choose(unmasked) == Ids{40});
          }
    expect(choose({.logits = {nothing}, .lists = {tokens}}) == Ids{40});
  };

  "drafted tokens count like history in a list too"_test = [&] {
    Random random(5);
    Sampling sampling{.repetition = 1.7f, .presence = 0.5f, .frequency = 0.6f, .temperature = 1.0f};
    int moved = 0;
    for (int round = 0; round < 200; ++round) {
      const int vocab = 60;
      const Ids tokens = random_ids(random, 40, vocab);
      const auto logits = random.floats(40, -3, 3);
      Ids before(vocab, 0), drafted;
      for (int i = 0; i < 20; ++i) ++before[random.below(vocab)];
      Ids after = before;
      for (int i = 0; i < 7; ++i) {
        drafted.push_back(random.chance(3) ? random.below(vocab) : tokens[random.below(10)]);
        ++after[drafted.back()];
      }
      sampling.seed = random.bits();
      const auto with_drafts = choose_one(choose, logits, tokens, sampling, {.index = round, .drafted = drafted}, before);
      expect(eq(with_drafts, choose_one(choose, logits, tokens, sampling, {.index = round}, after)));
      moved += with_drafts != choose_one(choose, logits, tokens, sampling, {.index = round}, before);
    }
    expect(moved > 20) << "drafts matter";
  };
}

inline void test_golden_picks(const Choose& choose) {
  using namespace boost::ut;

  "picks are the golden ones"_test = [&] {
    int picks = 0;
    for_each_golden_case([&](GoldenCase& one, simdjson::dom::element entry) {
      if (double(entry["edge_gap"]) < kGoldenTolerance) return;  // may go either way
      for (const simdjson::dom::element pick : entry["picks"]) {
        one.sampling.seed = std::stoull(std::string(std::string_view(pick["seed"])));
        one.sampling.stream = static_cast<std::uint32_t>(std::uint64_t(pick["stream"]));
        expect(eq(choose_one(choose, one.logits, {}, one.sampling, {.index = std::int64_t(pick["index"])}, one.counts),
                  static_cast<std::int32_t>(std::int64_t(pick["token"]))))
            << one.name;
        ++picks;
      }
    });
    expect(picks > 900) << picks;
  };
}

}  // namespace lapidary::test
