// How far the fast mode strays from the exact one: the divergence of its distributions and how often the likeliest token is another.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "support/cases.hpp"
#include "support/kv_logits.hpp"
#include "support/model.hpp"
#include "support/program.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::test::quality_test {
namespace {

using namespace boost::ut;

// A mean of few positions scatters more.
constexpr int kPositions = kSlowBuild ? 100 : 2000;
constexpr double kMaxDivergence = kSlowBuild ? 0.06 : 0.02, kLeastAgreement = kSlowBuild ? 0.8 : 0.9;

std::vector<double> log_softmax(const std::vector<float>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - most);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - most - std::log(sum));
  return result;
}

struct Quality {
  double divergence = 0;  // Kullback-Leibler, of the fast mode from the exact one, in nats, mean over positions
  double agreement = 0;   // share of positions with the same likeliest token
};

Quality compare(const Logits& exact, const Logits& fast) {
  Quality quality;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto p = log_softmax(exact[i]), q = log_softmax(fast[i]);
    for (std::size_t token = 0; token < p.size(); ++token) quality.divergence += std::exp(p[token]) * (p[token] - q[token]);
    quality.agreement += std::max_element(p.begin(), p.end()) - p.begin() == std::max_element(q.begin(), q.end()) - q.begin();
  }
  quality.divergence /= static_cast<double>(exact.size());
  quality.agreement /= static_cast<double>(exact.size());
  return quality;
}

Quality measure(const std::string& name, const std::string& folder, const std::vector<std::int32_t>& tokens) {
  const Quality quality = compare(logits_of(folder, nullptr, tokens, link::Numeric::exact), logits_of(folder, nullptr, tokens, link::Numeric::fast));
  std::printf("quality: %s: %zu positions, divergence %.5f nats, likeliest token the same %.2f %%\n", name.c_str(), tokens.size(),
              quality.divergence, 100 * quality.agreement);
  std::fflush(stdout);
  return quality;
}

const suite<"quality of the fast mode"> quality_of_fast_mode = [] {
  "pebble reads its own description"_test = [] {
    const std::string folder = kRoot + "/models/pebble";
    const text::Tokenizer tokenizer = text::Tokenizer::open(folder);
    auto tokens = tokenizer.encode("<bos>" + read_all(kRoot + "/models/README.md") + read_all(kFixtures + "/README.md"));
    expect(fatal(tokens.size() >= kPositions));
    tokens.resize(kPositions);
    const Quality quality = measure("pebble", folder, tokens);
    expect(quality.divergence < kMaxDivergence && quality.agreement > kLeastAgreement);
  };

  // Random weights are far more sensitive than trained ones.
  for (const char* name : {"dense-3bit", "dense-4bit", "dense-5bit-g32", "dense-8bit", "dense-nvfp4", "moe-4bit", "moe-mxfp4",
                           "ple-8bit", "unified-4bit", "unified-6bit-g128"})
    boost::ut::test(std::string(name) + " reads random tokens") = [name] {
      Random random(9);
      std::vector<std::int32_t> tokens;
      for (int i = 0; i < kPositions; ++i) tokens.push_back(4 + random.below(240));
      const Quality quality = measure(name, kFixtures + "/models/" + name, tokens);
      expect(quality.divergence < kMaxDivergence && quality.agreement > kLeastAgreement);
    };
};

}  // namespace
}  // namespace lapidary::test::quality_test
