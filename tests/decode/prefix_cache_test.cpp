// Beginnings that are kept: whatever a text goes on from, its logits are those of the text computed anew.
#include <boost/ut.hpp>

#include <cstring>
#include <map>

#include "decode/generate.hpp"
#include "decode/prefix_cache.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::prefix_cache_test {
namespace {

using namespace boost::ut;
using decode::PrefixCache;
using decode::Session;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kPlenty = 64 << 20;

struct TwoSessions {
  explicit TwoSessions(const std::string& folder, link::Numeric numeric = link::Numeric::exact, int context_tokens = 640)
      : model(folder, {.context_tokens = context_tokens, .chunk_rows = 32, .sessions = 2, .numeric = numeric}), first(model.program, *model.executor, 0),
        second(model.program, *model.executor, 1) {}

  Loaded model;
  Session first, second;

  std::vector<float> logits_anew(const Tokens& tokens) {
    first.rollback(0);
    first.prefill(tokens);
    return {first.logits().begin(), first.logits().end()};
  }
};

Tokens random_tokens(Random& random, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(4 + random.below(240));
  return tokens;
}

Tokens beginning(const Tokens& tokens, int count) { return {tokens.begin(), tokens.begin() + count}; }

bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::string folder_of(const std::string& name) { return kFixtures + "/models/" + name; }

const suite<"prefix cache"> prefix_cache = [] {
  for (const char* name : {"dense-4bit", "ple-bf16", "moe-bf16"})
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
      boost::ut::test(std::string(name) + ", " + std::string(name_of(numeric)) + ": texts that share beginnings, at random") = [=] {
        TwoSessions sessions(folder_of(name), numeric);
        PrefixCache cache(sessions.model.program, kPlenty);
        Random random(41);
        std::vector<Tokens> texts;
        int reused = 0;
        for (int i = 0; i < (kSlowBuild ? 8 : 40); ++i) {
          Tokens text = texts.empty() || random.below(5) == 0 ? Tokens{} : texts[static_cast<std::size_t>(random.below(static_cast<int>(texts.size())))];
          if (!text.empty()) text.resize(static_cast<std::size_t>(1 + random.below(static_cast<int>(text.size()))));
          const Tokens more = random_tokens(random, 1 + random.below(300));
          text.insert(text.end(), more.begin(), more.end());
          text.resize(std::min<std::size_t>(text.size(), 600));
          const std::vector<float> expected = sessions.logits_anew(text);
          const std::int32_t kept = cache.restore("", text, sessions.second);
          expect(kept < static_cast<std::int32_t>(text.size()) && kept == sessions.second.length());
          reused += kept;
          sessions.second.begin_prompt(std::span(text).subspan(static_cast<std::size_t>(kept)));
          while (sessions.second.in_prompt()) {
            sessions.second.turn();
            if (random.below(3) == 0) cache.store("", sessions.second);
          }
          expect(same_bytes(sessions.second.logits(), expected)) << i << kept;
          cache.store("", sessions.second);
          texts.push_back(text);
        }
        expect(reused > 200_i);
        expect(cache.evictions() == 0_i);
      };

  "a text that was generated is gone on with"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"));
    PrefixCache cache(sessions.model.program, kPlenty);
    Random random(3);
    const Tokens prompt = random_tokens(random, 50);
    decode::Generation generation(sessions.second, prompt, {.max_tokens = 100});
    Tokens text = prompt;
    for (const std::int32_t token : all_of(generation)) text.push_back(token);
    cache.store("", sessions.second);
    text.push_back(9);
    const std::vector<float> expected = sessions.logits_anew(text);
    expect(cache.restore("", text, sessions.second) == 149_i);
    sessions.second.prefill(std::span(text).subspan(149));
    expect(same_bytes(sessions.second.logits(), expected));
  };

  "a snapshot is good for any length that its rings reach back to, and the last token is always computed"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"));
    PrefixCache cache(sessions.model.program, kPlenty);
    Random random(5);
    const Tokens text = random_tokens(random, 400);
    sessions.second.prefill(text);
    cache.store("", sessions.second);
    expect(cache.restore("", text, sessions.second) == 399_i);
    Tokens other = beginning(text, 380);
    other.push_back(1);
    expect(cache.restore("", other, sessions.second) == 380_i);
    other = beginning(text, 20);  // the rings have gone on since
    expect(cache.restore("", other, sessions.second) == 0_i);
  };

  "a snapshot of what was restored reaches back no further than the first one"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"));
    PrefixCache cache(sessions.model.program, kPlenty);
    Random random(9);
    const Tokens text = random_tokens(random, 400);
    sessions.second.prefill(text);
    cache.store("", sessions.second);
    Tokens other = beginning(text, 380);
    other.push_back(1);
    expect(cache.restore("", other, sessions.second) == 380_i);
    sessions.second.prefill(std::span(other).last(1));
    cache.store("", sessions.second);
    for (int length = 330; length < 380; length += 7) {
      const Tokens third = beginning(text, length);
      const std::vector<float> expected = sessions.logits_anew(third);
      const std::int32_t kept = cache.restore("", third, sessions.second);
      sessions.second.prefill(std::span(third).subspan(static_cast<std::size_t>(kept)));
      expect(same_bytes(sessions.second.logits(), expected)) << length << kept;
    }
  };

  "spaces do not know of each other"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"));
    PrefixCache cache(sessions.model.program, kPlenty);
    Random random(6);
    const Tokens text = random_tokens(random, 100);
    sessions.second.prefill(text);
    cache.store("one", sessions.second);
    expect(cache.restore("two", text, sessions.second) == 0_i);
    expect(sessions.second.length() == 0_i);
    expect(cache.restore("one", text, sessions.second) == 99_i);
  };

  "what all share is stored once"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"), link::Numeric::exact, 4096);
    PrefixCache cache(sessions.model.program, kPlenty);
    Random random(7);
    Tokens text = random_tokens(random, 3000);
    sessions.second.prefill(text);
    cache.store("", sessions.second);
    const std::size_t first = cache.used_bytes();
    cache.store("", sessions.second);
    expect(cache.used_bytes() == first);
    sessions.second.prefill(random_tokens(random, 64));
    cache.store("", sessions.second);
    expect(cache.used_bytes() < first + first / 2) << first << cache.used_bytes();
  };

  "within its budget those stay that were used last"_test = [] {
    TwoSessions sessions(folder_of("dense-4bit"));
    Random random(8);
    std::vector<Tokens> texts;
    for (int i = 0; i < 6; ++i) texts.push_back(random_tokens(random, 200));
    const auto compute = [&](PrefixCache& cache, const Tokens& text) {
      const std::int32_t kept = cache.restore("", text, sessions.second);
      sessions.second.prefill(std::span(text).subspan(static_cast<std::size_t>(kept)));
      cache.store("", sessions.second);
      return kept;
    };
    PrefixCache plenty(sessions.model.program, kPlenty);
    compute(plenty, texts[0]);
    PrefixCache cache(sessions.model.program, 3 * plenty.used_bytes());
    for (int i = 0; i < 3; ++i) compute(cache, texts[static_cast<std::size_t>(i)]);
    expect(compute(cache, texts[0]) == 199_i);
    compute(cache, texts[3]);  // texts[1] has to go
    expect(cache.evictions() == 1_i);
    expect(cache.restore("", texts[1], sessions.second) == 0_i);
    expect(cache.restore("", texts[0], sessions.second) == 199_i);
    for (int round = 0; round < 50; ++round) {
      const Tokens& text = texts[static_cast<std::size_t>(random.below(6))];
      const std::vector<float> expected = sessions.logits_anew(text);
      compute(cache, text);
      expect(same_bytes(sessions.second.logits(), expected));
      expect(cache.used_bytes() <= cache.budget_bytes());
    }
    PrefixCache none(sessions.model.program, 0);
    expect(compute(none, texts[0]) == 0_i && compute(none, texts[0]) == 0_i);
    PrefixCache tiny(sessions.model.program, 64 << 10);
    expect(compute(tiny, texts[0]) == 0_i && compute(tiny, texts[0]) == 0_i && tiny.used_bytes() == 0_ul);
  };
};

}  // namespace
}  // namespace lapidary::test::prefix_cache_test
