// sample where the logits are those of a list of tokens, against its definition.
#include <boost/ut.hpp>

#include <limits>

#include "cpu/kernel_rows.hpp"
#include "cpu/noise.hpp"
#include "cpu/random_settings.hpp"
#include "reference/sample.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;
using graph::Sampling;
using Ids = std::vector<std::int32_t>;
using IdRows = std::vector<Ids>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");
constexpr double kClose = 2e-5;  // decisions closer than this may differ in float32

// Different tokens below `vocab`, in random order.
Ids random_list(Random& random, int count, int vocab) {
  const auto picked = random.pick(count, vocab);
  return {picked.begin(), picked.end()};
}

Ids sample_listed(const FloatRows& logits, const IdRows& tokens, const graph::Selection* selection, int parts = 1) {
  const int rows = static_cast<int>(logits.size()), n = static_cast<int>(logits.front().size());
  const RowBuffer in(logits);
  const IdBuffer listed(tokens);
  IdBuffer out(rows, 1), candidates(rows, n);
  RowBuffer weights(rows, n);
  in_parts(parts, [&](cpu::Part part) {
    cpu::sample(rows, in.in(), listed.in(), n, selection, out.out(), weights.out(), candidates.out(), part);
  });
  weights.rows(), candidates.rows();  // for their gaps
  expect(listed.rows() == tokens);
  for (int r = 0; r < rows; ++r)
    expect(std::memcmp(in.rows()[r].data(), logits[r].data(), n * sizeof(float)) == 0) << "logits have changed";
  Ids chosen;
  for (const Ids& row : out.rows()) chosen.push_back(row[0]);
  return chosen;
}

std::int32_t sample_listed(const std::vector<float>& logits, const Ids& tokens, const Sampling& sampling,
                           const graph::SelectRow& row = {}, std::span<const std::int32_t> counts = {}) {
  const graph::Selection selection{sampling, counts, {&row, 1}};
  return sample_listed(FloatRows{logits}, {tokens}, &selection).front();
}

// Random settings, and a list of some of the vocabulary.
struct RandomRequest : RandomSettings {
  int vocab;
  Ids tokens;
  std::vector<float> logits;  // of the tokens

  RandomRequest(Random& random, int vocab_size) : RandomRequest(random, vocab_size, 1 + random.below(vocab_size)) {}

  std::int32_t sampled() const { return sample_listed(logits, tokens, sampling, row(), counts); }

 private:
  RandomRequest(Random& random, int vocab_size, int listed)
      : RandomSettings(random, vocab_size, listed), vocab(vocab_size), tokens(random_list(random, listed, vocab_size)) {
    const bool coarse = random.chance(3);  // many equal logits
    for (int i = 0; i < listed; ++i) {
      const double logit = random.uniform(-8, 8);
      logits.push_back(random.chance(40) ? random.chance(2) ? kNaN : -kInfinity
                                         : static_cast<float>(coarse ? std::round(logit) : logit));
    }
  }
};

suite<"sample from a list"> listed_suite = [] {
  "any settings choose the token of the definition from a list"_test = [] {
    Random random(1);
    int compared = 0, close = 0, nothing = 0;
    for (int round = 0; round < 4000; ++round) {
      const RandomRequest request(random, 1 + random.below(300));
      const graph::SelectRow row = request.row();
      const graph::Selection selection{request.sampling, request.counts, {&row, 1}};
      const auto y = reference::adjusted_listed(request.logits, request.tokens, request.vocab, selection, row);
      if (*std::max_element(y.begin(), y.end()) == -INFINITY) {
        ++nothing;
        continue;
      }
      const auto expected = reference::distribution(y, request.sampling);
      const auto pick = reference::pick(expected.probabilities, request.sampling, row.index, request.tokens);
      if (expected.gap < kClose || pick.margin < kClose) {
        ++close;
        continue;
      }
      ++compared;
      expect(eq(request.sampled(), pick.token)) << "round" << round;
    }
    expect(compared > 3500 && close < 20 && nothing < 300) << compared << "compared," << close << "too close," << nothing;
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
                                     Sampling{.temperature = 3.0f, .min_p = 0.01f}})
      for (std::int64_t index = 0; index < 10; ++index) {
        const auto expected = reference::distribution(doubles(logits), sampling);
        const auto pick = reference::pick(expected.probabilities, sampling, index, tokens);
        if (expected.gap < kClose || pick.margin < kClose) continue;
        expect(eq(sample_listed(logits, tokens, sampling, {.index = index}), pick.token))
            << "temperature" << sampling.temperature;
        ++compared;
      }
    expect(compared > 50) << compared;
  };

  "of equal logits the earlier in the list is chosen, with a request and without"_test = [] {
    Random random(3);
    for (const int n : {2, 8, 33, 500, 3000})
      for (int round = 0; round < 30; ++round) {
        const Ids tokens = random_list(random, n, 2 * n);
        std::vector<float> logits;
        for (int i = 0; i < n; ++i) logits.push_back(static_cast<float>(random.below(3)));
        const auto first = std::max_element(logits.begin(), logits.end()) - logits.begin();
        expect(eq(sample_listed(FloatRows{logits}, {tokens}, nullptr).front(), tokens[first])) << "of" << n;
        expect(eq(sample_listed(logits, tokens, {.seed = 5}), tokens[first])) << "temperature 0 of" << n;
      }
  };

  "of equal logits the earlier in the list survive top-k and top-p"_test = [] {
    const Ids tokens = {90, 7, 13, 200, 2, 55, 1, 31, 64, 63, 150, 0, 255, 32, 8, 100};
    const auto survivors = [&](const Sampling& sampling) {
      std::vector<bool> seen(tokens.size(), false);
      for (int index = 0; index < 500; ++index) {
        const auto chosen = sample_listed(std::vector<float>(tokens.size(), 1.0f), tokens, sampling, {.index = index});
        seen[std::find(tokens.begin(), tokens.end(), chosen) - tokens.begin()] = true;
      }
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
    std::sort(noise.begin(), noise.end());
    int ties = 0;
    for (std::size_t i = 1; i < noise.size(); ++i) {
      if (noise[i].first != noise[i - 1].first) continue;
      for (const Ids& tokens : {Ids{noise[i].second, noise[i - 1].second}, Ids{noise[i - 1].second, noise[i].second}})
        expect(eq(sample_listed(std::vector<float>(2, 0.5f), tokens, sampling), tokens.front()));
      ++ties;
    }
    expect(ties > 10) << ties;
  };

  "noise belongs to a token, not to its place: a list of all chooses as no list does"_test = [] {
    Random random(4);
    for (int round = 0; round < 300; ++round) {
      const int n = 1 + random.below(200);
      const RandomRequest request(random, n);
      const std::vector<float> all = random.floats(n, -4, 4);
      const Ids shuffled = random_list(random, n, n);
      std::vector<float> logits;
      for (const std::int32_t token : shuffled) logits.push_back(all[token]);
      const graph::SelectRow row = request.row();
      const graph::Selection selection{request.sampling, request.counts, {&row, 1}};
      const auto y = reference::adjusted(all, selection, row);
      if (*std::max_element(y.begin(), y.end()) == -INFINITY) continue;
      const RowBuffer in(FloatRows{all});
      IdBuffer out(1, 1), candidates(1, n);
      RowBuffer weights(1, n);
      cpu::sample(1, in.in(), {}, n, &selection, out.out(), weights.out(), candidates.out(), {});
      const auto chosen = sample_listed(logits, shuffled, request.sampling, row, request.counts);
      expect(eq(chosen, out.rows()[0][0])) << "round" << round;
    }
  };

  "where logits say nothing, the first allowed token of the list is chosen, or its first"_test = [] {
    const Ids tokens = {40, 3, 70, 12, 5, 33};
    const std::vector<float> nothing = {kNaN, -kInfinity, kNaN, kNaN, -kInfinity, kNaN}, numbers(6, 1.0f);
    const std::vector<std::uint32_t> none = {0, 0, 0}, some = {1u << 12 | 1u << 5, 1u << 1, 0};  // 12, 5 and 33
    const Ids early = {40, 3, 12}, counts(96, 1);
    for (const float temperature : {0.0f, 1e-20f, 1.0f, kInfinity})
      for (const std::int32_t top_k : {0, 1, 3})
        for (const float top_p : {0.0f, 1.0f})
          for (const float repetition : {1.0f, 1.5f}) {
            Sampling sampling{.repetition = repetition, .temperature = temperature, .top_k = top_k, .top_p = top_p};
            expect(eq(sample_listed(nothing, tokens, sampling, {}, counts), 40));
            expect(eq(sample_listed(numbers, tokens, sampling, {.mask = none}, counts), 40));
            expect(eq(sample_listed(nothing, tokens, sampling, {.mask = some}, counts), 12));
            sampling.suppressed = early;
            expect(eq(sample_listed(nothing, tokens, sampling, {}, counts), 70));
            expect(eq(sample_listed(nothing, tokens, sampling, {.mask = some}, counts), 5));
            sampling.suppressed = tokens;
            expect(eq(sample_listed(numbers, tokens, sampling, {}, counts), 40));
          }
    expect(eq(sample_listed(FloatRows{nothing}, {tokens}, nullptr).front(), 40));
  };

  "drafted tokens count like history in a list too"_test = [] {
    Random random(5);
    Sampling sampling{.repetition = 1.7f, .presence = 0.5f, .frequency = 0.6f, .temperature = 1.0f};
    int moved = 0;
    for (int round = 0; round < 200; ++round) {
      const int vocab = 60;
      const Ids tokens = random_list(random, 40, vocab);
      const auto logits = random.floats(40, -3, 3);
      Ids before(vocab, 0), drafted;
      for (int i = 0; i < 20; ++i) ++before[random.below(vocab)];
      Ids after = before;
      for (int i = 0; i < 7; ++i) {
        drafted.push_back(random.chance(3) ? random.below(vocab) : tokens[random.below(10)]);
        ++after[drafted.back()];
      }
      sampling.seed = random.bits();
      const auto with_drafts = sample_listed(logits, tokens, sampling, {.index = round, .drafted = drafted}, before);
      expect(eq(with_drafts, sample_listed(logits, tokens, sampling, {.index = round}, after)));
      moved += with_drafts != sample_listed(logits, tokens, sampling, {.index = round}, before);
    }
    expect(moved > 20) << "drafts matter";
  };

  "a row with a list of its own is chosen the same among any others, by any number of threads"_test = [] {
    Random random(6);
    const int vocab = 700, n = 200;
    const Sampling sampling{.repetition = 1.3f, .frequency = 0.2f, .temperature = 1.0f, .top_p = 0.9f, .seed = 3};
    Ids counts(vocab, 0);
    for (int i = 0; i < 400; ++i) ++counts[random.below(vocab)];
    const FloatRows logits = random_rows(random, 8, n, -5, 5);
    IdRows tokens, drafted;
    std::vector<graph::SelectRow> rows;
    for (int r = 0; r < 8; ++r) {
      tokens.push_back(random_list(random, n, vocab));
      drafted.emplace_back(tokens.back().begin(), tokens.back().begin() + r);
    }
    for (int r = 0; r < 8; ++r) rows.push_back({100 + r, drafted[r], {}});
    Ids alone;
    for (int r = 0; r < 8; ++r) alone.push_back(sample_listed(logits[r], tokens[r], sampling, rows[r], counts));
    for (int width = 1; width <= 8; ++width)
      for (const int parts : {1, 2, 3, 9}) {
        const auto numbers = random.pick(width, 8);
        const auto some = gather(rows, numbers);
        const graph::Selection selection{sampling, counts, some};
        expect(sample_listed(gather(logits, numbers), gather(tokens, numbers), &selection, parts) == gather(alone, numbers))
            << "width" << width << "in" << parts << "parts";
      }
  };
};

}  // namespace
}  // namespace lapidary::test
