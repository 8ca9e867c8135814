// Prompt lookup, against a search of the whole history and of what was predicted.
#include <boost/ut.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decode/generate.hpp"
#include "decode/lookup.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "support/random.hpp"

namespace lapidary::test::lookup_test {
namespace {

using namespace boost::ut;
using decode::Lookup;
using Ids = std::vector<std::int32_t>;

// What follows the longest n-gram, of 8, 4 or 2 tokens, where it ended last within the first `capacity` tokens: of the prediction, or
// else of the history.
Ids searched(const Ids& history, int most, int capacity, const Ids& prediction = {}) {
  const int size = static_cast<int>(history.size()), predicted = std::min(static_cast<int>(prediction.size()), capacity);
  for (const int n : {8, 4, 2}) {
    for (int end = predicted - 1; size >= n && end >= n; --end)
      if (std::equal(history.end() - n, history.end(), prediction.begin() + end - n))
        return {prediction.begin() + end, prediction.begin() + std::min(end + most, predicted)};
    for (int end = std::min(size - 1, capacity); end >= n; --end)
      if (std::equal(history.end() - n, history.end(), history.begin() + end - n)) {
        Ids text = history;
        for (int i = 0; i < most; ++i) text.push_back(text[end + i]);
        return {text.begin() + end, text.begin() + end + most};
      }
  }
  return {};
}

Ids proposed(Lookup& lookup, const Ids& history, int most) {
  const decode::Drafts drafts = lookup.propose(history, most);
  expect(drafts.tokens != nullptr);
  return {drafts.tokens, drafts.tokens + drafts.count};
}

void append_random(Ids& history, int count, int alphabet, Random& random) {
  for (int i = 0; i < count; ++i) history.push_back(random.below(alphabet));
}

const suite<"lookup"> lookup_suite = [] {
  "drafts are those a search finds, however the history grows, shrinks and changes"_test = [] {
    Random random(1);
    int found = 0, nothing = 0;
    for (int round = 0; round < 400; ++round) {
      const int capacity = random.chance(3) ? random.below(60) : 300, alphabet = 2 + random.below(round % 2 ? 4 : 60);
      Lookup lookup(capacity);
      Ids history, prediction;
      for (int call = 0; call < 60; ++call) {
        const int size = static_cast<int>(history.size());
        if (random.chance(12)) history.resize(random.below(size + 1));                                  // a rollback
        if (random.chance(12)) history.resize(size - std::min(size, random.below(5)));                  // a small one
        if (random.chance(40)) {                                                                        // a new request
          history.clear();
          prediction.clear();
          if (round % 4 > 1) append_random(prediction, random.below(400), alphabet, random);
          lookup.begin_text(prediction);
        }
        append_random(history, random.chance(8) ? random.below(40) : random.below(4), alphabet, random);
        const int most = random.below(8);
        const Ids expected = searched(history, most, capacity, prediction);
        expect(proposed(lookup, history, most) == expected) << "round" << round << "call" << call;
        ++(expected.empty() ? nothing : found);
      }
    }
    expect(found > 5000 && nothing > 5000) << found << nothing;
  };

  "the same history is answered the same, first or after any other"_test = [] {
    Random random(2);
    Lookup used(200);
    for (int round = 0; round < 300; ++round) {
      Ids history;
      append_random(history, random.below(150), 3, random);
      Lookup fresh(200);
      const Ids expected = proposed(fresh, history, 7);
      expect(proposed(used, history, 7) == expected && proposed(used, history, 7) == expected) << "round" << round;
    }
  };

  "a repetition continues in full"_test = [] {
    for (int period = 1; period <= 9; ++period)
      for (int size = period + 4; size < 3 * period + 8; ++size) {
        Lookup lookup(100);
        Ids text;
        for (int i = 0; i < size + 7; ++i) text.push_back(100 + i % period);
        const Ids history(text.begin(), text.begin() + size);
        for (int most = 0; most <= 7; ++most)
          expect(proposed(lookup, history, most) == Ids(text.begin() + size, text.begin() + size + most)) << period << size;
      }
  };

  "the longest n-gram comes first, then the latest occurrence"_test = [] {
    Lookup lookup(100);
    const Ids text = {1, 2, 3, 4, 5, 6, 7, 8, 20, 0, 5, 6, 7, 8, 21, 0, 0, 7, 8, 22};
    const auto after = [&](const Ids& tail) {
      Ids history = text;
      history.insert(history.end(), tail.begin(), tail.end());
      return proposed(lookup, history, 1);
    };
    expect(after({1, 2, 3, 4, 5, 6, 7, 8}) == Ids{20});
    expect(after({5, 6, 7, 8}) == Ids{21} && after({9, 2, 3, 4, 5, 6, 7, 8}) == Ids{21});
    expect(after({7, 8}) == Ids{22} && after({9, 6, 7, 8}) == Ids{22});
    expect(after({9, 8}).empty());
    expect(proposed(lookup, {3, 4, 10, 3, 4, 11, 3, 4, 12, 3, 4}, 2) == Ids{12, 3});
  };

  "where nothing repeats there are no drafts"_test = [] {
    Lookup lookup(100);
    Ids history;
    for (int i = 0; i < 120; ++i) {
      expect(proposed(lookup, history, 7).empty()) << i;
      history.push_back(i % 2 ? 1000 + i : 5);  // every other token repeats, no two in a row do
    }
  };

  "what was predicted is drafted, as far as it goes, until another text begins"_test = [] {
    Lookup lookup(100);
    lookup.begin_text(Ids{1, 2, 3, 4, 5, 6});
    expect(proposed(lookup, {9, 1, 2}, 3) == Ids{3, 4, 5} && proposed(lookup, {1, 2}, 7) == Ids{3, 4, 5, 6});
    expect(proposed(lookup, {9, 5, 6}, 7).empty()) << "nothing follows";
    lookup.begin_text(Ids{5, 6, 7, 1, 2, 3, 5, 6});
    expect(proposed(lookup, {9, 5, 6}, 1) == Ids{7}) << "where something follows";
    expect(proposed(lookup, {1, 2, 7, 1, 2}, 1) == Ids{3}) << "before what the history has";
    expect(proposed(lookup, {8, 8, 1, 2, 7, 8, 8, 1, 2}, 1) == Ids{7}) << "unless that has more of it";
    lookup.begin_text({});
    expect(proposed(lookup, {9, 1, 2}, 3).empty());
  };

  "a text that was predicted is accepted, and no prediction changes it"_test = [] {
    const Pair pair = fixture_pairs().front();
    Loaded model(pair.target, {.context_tokens = 256});
    const Ids prompt = Expected(pair.assistant + "/rounds.safetensors.xz").ids("prompt0.input_ids");
    decode::Speculation speculation({{[] { return std::make_unique<Lookup>(256); }, {}}}, 7);
    std::int64_t accepted = 0;
    const auto text_with = [&](const Ids& prediction, float temperature, bool drafts) {
      decode::Session session(model.program, *model.executor);
      decode::Generation generation(session, prompt, {.sampling = {.temperature = temperature, .seed = 5}, .max_tokens = 60,
                                                      .speculation = drafts ? &speculation : nullptr, .prediction = prediction});
      Ids text = all_of(generation);
      accepted = generation.accepted_drafts();
      return text;
    };
    Random random(4);
    for (const float temperature : {0.0f, 1.0f}) {
      const Ids plain = text_with({}, temperature, false);
      expect(text_with({}, temperature, true) == plain);
      const std::int64_t by_itself = accepted;
      expect(text_with(plain, temperature, true) == plain);
      expect(accepted > by_itself + 20 && accepted > 40) << accepted << by_itself;
      for (int round = 0; round < 10; ++round) {
        Ids prediction = plain;
        for (std::int32_t& token : prediction)
          if (random.chance(4)) token = random.below(model.program.graph->shape.vocab);
        append_random(prediction, 40 * round, model.program.graph->shape.vocab, random);
        std::rotate(prediction.begin(), prediction.begin() + random.below(60), prediction.end());
        expect(text_with(prediction, temperature, true) == plain) << temperature << round;
      }
    }
  };

  "a change behind tokens that stay the same never leads to drafts that are not there"_test = [] {
    Random random(3);
    const auto occurs = [](const Ids& history, const Ids& drafts) {
      for (std::size_t end = 2; end < history.size(); ++end) {
        if (!std::equal(history.end() - 2, history.end(), history.begin() + static_cast<int>(end) - 2)) continue;
        Ids text = history;
        for (std::size_t i = 0; i < drafts.size(); ++i) text.push_back(text[end + i]);
        if (std::equal(drafts.begin(), drafts.end(), text.begin() + static_cast<int>(end))) return true;
      }
      return false;
    };
    int found = 0, missed = 0;
    for (int round = 0; round < 2000; ++round) {
      Ids history;
      append_random(history, 150, 12, random);
      Lookup lookup(300);
      proposed(lookup, history, 7);
      for (int i = 0; i < 100; ++i)
        if (random.chance(3)) history[i] = random.below(12);
      append_random(history, random.below(3), 12, random);
      const Ids drafts = proposed(lookup, history, 7);
      expect(drafts.empty() || occurs(history, drafts)) << "round" << round;
      found += !drafts.empty();
      missed += drafts != searched(history, 7, 300);
    }
    expect(found > 1000 && missed > 0) << found << missed;  // else the change was no hidden one
  };
};

}  // namespace
}  // namespace lapidary::test::lookup_test
