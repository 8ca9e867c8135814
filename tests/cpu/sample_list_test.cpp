// sample on the CPU where the logits are those of a list of tokens.
#include <boost/ut.hpp>

#include "cpu/sample_rows.hpp"
#include "support/sample_list_cases.hpp"

namespace lapidary::test::sample_list_test {
namespace {

using namespace boost::ut;

suite<"sample from a list"> listed_suite = [] {
  test_listed(choose_on_cpu, 1000);

  "a row with a list of its own is chosen the same among any others, by any number of threads"_test = [] {
    Random random(6);
    const int vocab = 700, n = 200;
    const graph::Sampling sampling{.repetition = 1.3f, .frequency = 0.2f, .temperature = 1.0f, .top_p = 0.9f, .seed = 3};
    Ids counts(vocab, 0);
    for (int i = 0; i < 400; ++i) ++counts[random.below(vocab)];
    const FloatRows logits = random_rows(random, 8, n, -5, 5);
    IdRows tokens, drafted;
    std::vector<graph::SelectRow> rows;
    for (int r = 0; r < 8; ++r) {
      tokens.push_back(random_ids(random, n, vocab));
      drafted.emplace_back(tokens.back().begin(), tokens.back().begin() + r);
    }
    for (int r = 0; r < 8; ++r) rows.push_back({100 + r, drafted[r], {}});
    Ids alone;
    for (int r = 0; r < 8; ++r) {
      const graph::Selection selection{sampling, counts, {&rows[r], 1}};
      alone.push_back(sample({logits[r]}, {tokens[r]}, &selection).front());
    }
    for (int width = 1; width <= 8; ++width)
      for (const int parts : {1, 2, 3, 9}) {
        const auto numbers = random.pick(width, 8);
        const auto some = gather(rows, numbers);
        const graph::Selection selection{sampling, counts, some};
        expect(sample(gather(logits, numbers), gather(tokens, numbers), &selection, parts) == gather(alone, numbers))
            << "width" << width << "in" << parts << "parts";
      }
  };
};

}  // namespace
}  // namespace lapidary::test::sample_list_test
