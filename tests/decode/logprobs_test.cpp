// The logarithms of the model's own probabilities.
#include <boost/ut.hpp>

#include <cmath>

#include "decode/logprobs.hpp"
#include "support/random.hpp"

namespace lapidary::test::logprobs_test {
namespace {

using namespace boost::ut;
using decode::logprobs;

double expected_logprob(const std::vector<float>& logits, int id) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[id]);
  return -std::log(sum);
}

const suite<"logprobs"> suite_of_logprobs = [] {
  "a logprob is the logarithm of softmax"_test = [] {
    Random random(1);
    for (const int n : {1, 2, 63, 64, 65, 1000, 262144}) {
      const auto logits = random.floats(n, -30, 30);
      for (int round = 0; round < 5; ++round) {
        const int id = random.below(n);
        const auto result = logprobs(logits, id, 0);
        const double expected = expected_logprob(logits, id);
        expect(result.chosen.id == id && result.top.empty());
        expect(std::abs(result.chosen.logprob - expected) <= 1e-6 * std::max(1.0, std::abs(expected)))
            << n << result.chosen.logprob << expected;
      }
    }
  };

  "the top is the likeliest first, of equal ones the smaller id"_test = [] {
    Random random(2);
    for (int round = 0; round < 200; ++round) {
      const int n = 1 + random.below(100), top = random.below(21);
      std::vector<float> logits;
      for (int i = 0; i < n; ++i) logits.push_back(static_cast<float>(random.below(12)));
      std::vector<int> order;
      for (int i = 0; i < n; ++i) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logits[a] > logits[b]; });
      order.resize(std::min(n, top));

      const auto result = logprobs(logits, n - 1, top);
      std::vector<int> ids;
      for (const auto& [id, logprob] : result.top) {
        ids.push_back(id);
        expect(logprob == logprobs(logits, id, 0).chosen.logprob);
      }
      expect(ids == order);
    }
  };

  "what is not a number has no probability"_test = [] {
    const std::vector<float> some = {NAN, 1.0f, -INFINITY, 1.0f};
    const auto result = logprobs(some, 0, 4);
    expect(result.chosen.logprob == -INFINITY);
    expect(result.top[0].id == 1 && result.top[1].id == 3 && result.top[2].id == 0 && result.top[3].id == 2);
    expect(std::abs(result.top[0].logprob + std::log(2.0f)) < 1e-6f);
    for (const std::vector<float>& nothing : {std::vector<float>(5, NAN), std::vector<float>(5, -INFINITY)}) {
      const auto silent = logprobs(nothing, 2, 2);
      expect(silent.chosen.logprob == -INFINITY && silent.top[0].id == 0 && silent.top[1].id == 1);
      expect(silent.top[0].logprob == -INFINITY);
    }
  };
};

}  // namespace
}  // namespace lapidary::test::logprobs_test
