// sample on the device where the logits are those of a list of tokens, and the golden picks.
#include <boost/ut.hpp>

#include "metal/sample_stage.hpp"
#include "support/sample_list_cases.hpp"

namespace lapidary::test::sample_list_test {
namespace {

using namespace boost::ut;

suite<"sample from a list on the device"> listed_suite = [] {
  test_listed(choose_on_device, 250);
  test_golden_picks(choose_on_device);

  "a row with a list of its own is chosen the same alone and in rounds of any width, by any number of threads"_test = [] {
    Random random(6);
    const int vocab = 700, n = 200;
    const graph::Sampling sampling{.repetition = 1.7f, .frequency = 1.5f, .temperature = 0.5f, .top_p = 0.9f, .seed = 3};
    Choosing round{.logits = random_rows(random, 8, n, -5, 5), .sampling = &sampling, .counts = Ids(vocab, 0),
                   .emitted = 100};
    for (int i = 0; i < 400; ++i) ++round.counts[random.below(vocab)];
    for (int r = 0; r < 8; ++r) round.lists.push_back(random_ids(random, n, vocab));
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

}  // namespace
}  // namespace lapidary::test::sample_list_test
