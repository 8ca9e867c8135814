// Random schemas: what is generated under the mask satisfies the schema, and what satisfies the schema can be generated.
#include <boost/ut.hpp>

#include "reference/json_schema.hpp"
#include "support/cases.hpp"
#include "support/slow_build.hpp"
#include "text/grammar_samples.hpp"

namespace lapidary::test::grammar_random_test {
namespace {

using namespace boost::ut;
using text::Grammar;
using text::GrammarState;
using text::Vocabulary;

constexpr int kSchemas = kSlowBuild ? 50 : 300;

struct Sample {
  Value schema;
  std::shared_ptr<const Grammar> grammar;
};

std::vector<Sample> samples(const std::shared_ptr<const Vocabulary>& vocabulary, int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Sample> result;
  while (static_cast<int>(result.size()) < count) {
    Value schema = RandomSchema(random).root();
    const auto error = error_of([&] { result.push_back({schema, Grammar::schema(vocabulary, schema)}); });
    // Some have no value at all, such as three elements where only two are described.
    if (error) expect(error->message().find("some value satisfies") != std::string::npos) << error->message();
  }
  return result;
}

struct Generated {
  std::string text;
  bool stuck = false;
};

// Random tokens, checking at every step that the text can be ended; then it is.
Generated generate(Random& random, const std::shared_ptr<const Grammar>& grammar, std::int32_t stop, int tokens) {
  const Vocabulary& vocabulary = grammar->vocabulary();
  const auto bytes = byte_ids(vocabulary);
  GrammarState state(grammar);
  Generated result;
  for (int i = 0; i < tokens; ++i) {
    const auto mask = mask_of(state, vocabulary.size(), {stop});
    if (ids_of(mask).empty() || has_bit(mask, stop) != state.complete()) return {result.text, true};
    const std::int32_t id = random_token(random, mask, vocabulary);
    if (id == stop) return result;
    if (!state.accept(id)) return {result.text, true};
    result.text += vocabulary.bytes(id);
    if (random.chance(8) && !shortest_end(state, bytes)) return {result.text, true};
  }
  const auto end = shortest_end(state, bytes);
  return end ? Generated{result.text + *end} : Generated{result.text, true};
}

enum class Style { compact, spaced, indented };

std::string written(const Value& value, Style style, int depth = 0) {
  const auto list = [&](char open, char close, std::size_t count, auto write) {
    if (count == 0) return std::string{open, close};
    const auto line = [&](int levels) {
      return style == Style::indented ? "\n" + std::string(2 * static_cast<std::size_t>(levels), ' ') : "";
    };
    std::string text(1, open);
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text += style == Style::spaced ? ", " : ",";
      text += line(depth + 1) + write(i);
    }
    return text + line(depth) + close;
  };
  if (const auto* items = value.array()) {
    return list('[', ']', items->size(), [&](std::size_t i) { return written((*items)[i], style, depth + 1); });
  }
  if (const auto* fields = value.object()) {
    return list('{', '}', fields->size(), [&](std::size_t i) {
      const auto& [name, field] = (*fields)[i];
      return text::to_json(name) + (style == Style::compact ? ":" : ": ") + written(field, style, depth + 1);
    });
  }
  return text::to_json(value);
}

// Splits the text into the longest pieces, or into random ones where there is a choice.
bool accepts(const std::shared_ptr<const Grammar>& grammar, std::string_view text, Random* random) {
  const Vocabulary& vocabulary = grammar->vocabulary();
  GrammarState state(grammar);
  while (!text.empty()) {
    std::vector<std::int32_t> fitting;
    for (std::int32_t id = 0; id < vocabulary.size(); ++id)
      if (!vocabulary.bytes(id).empty() && text.starts_with(vocabulary.bytes(id))) fitting.push_back(id);
    const auto shorter = [&](std::int32_t a, std::int32_t b) {
      return vocabulary.bytes(a).size() < vocabulary.bytes(b).size();
    };
    const std::int32_t id = random ? fitting[static_cast<std::size_t>(random->below(static_cast<int>(fitting.size())))]
                                   : *std::ranges::max_element(fitting, shorter);
    if (!has_bit(mask_of(state, vocabulary.size(), {}), id) || !state.accept(id)) return false;
    text.remove_prefix(vocabulary.bytes(id).size());
  }
  return state.complete();
}

suite<"grammar of random schemas"> random_suite = [] {
  boost::ut::test("what is generated satisfies the schema") = [] {
    Random random(1);
    for (const Sample& sample : samples(small_vocabulary(), kSchemas, 2)) {
      for (int walk = 0; walk < 8; ++walk) {
        const Generated generated = generate(random, sample.grammar, kStop, 10 + random.below(60));
        expect(!generated.stuck) << "stuck" << text::to_json(sample.schema) << generated.text;
        if (generated.stuck) continue;
        const auto error = error_of([&] {
          expect(reference::JsonSchema(sample.schema).accepts(json(generated.text)))
              << text::to_json(sample.schema) << generated.text;
        });
        expect(!error) << generated.text;
      }
    }
  };

  boost::ut::test("what satisfies the schema can be generated, in any tokens") = [] {
    Random random(3);
    int instances = 0;
    for (const Sample& sample : samples(small_vocabulary(), kSchemas, 4)) {
      for (int i = 0; i < 4; ++i) {
        const auto instance = RandomInstance(random, sample.schema).make();
        if (!instance) continue;
        ++instances;
        expect(reference::JsonSchema(sample.schema).accepts(*instance)) << "no instance" << text::to_json(*instance);
        for (const Style style : {Style::compact, Style::spaced, Style::indented}) {
          const std::string text = written(*instance, style);
          const bool accepted = reads(sample.grammar, text) == 2 && accepts(sample.grammar, text, nullptr) &&
                                accepts(sample.grammar, text, &random);
          expect(accepted) << text::to_json(sample.schema) << text;
        }
      }
    }
    expect(instances > kSchemas * 8 / 3) << instances;
  };

  boost::ut::test("the mask holds exactly the tokens that are allowed one by one") = [] {
    Random random(5);
    const auto vocabulary = small_vocabulary();
    for (const Sample& sample : samples(vocabulary, kSchemas / 3, 6)) {
      GrammarState state(sample.grammar);
      for (int i = 0; i < 30; ++i) {
        const auto mask = mask_of(state, vocabulary->size(), {});
        int wrong = 0;
        for (std::int32_t id = 0; id < vocabulary->size(); ++id) wrong += has_bit(mask, id) != state.allows(id);
        expect(wrong == 0_i) << text::to_json(sample.schema);
        if (ids_of(mask).empty()) break;
        expect(state.accept(random_token(random, mask, *vocabulary)));
      }
    }
  };

  boost::ut::test("pebble's vocabulary: masks, generated texts, encoded instances") = [] {
    const auto tokenizer = text::Tokenizer::open(kRoot + "/models/pebble");
    const auto vocabulary = std::make_shared<const Vocabulary>(tokenizer);
    const std::int32_t stop = *tokenizer.special("<turn|>");
    Random random(7);
    for (const Sample& sample : samples(vocabulary, kSchemas / 7, 8)) {
      const Generated generated = generate(random, sample.grammar, stop, 40);
      expect(!generated.stuck && reference::JsonSchema(sample.schema).accepts(json(generated.text))) << generated.text;

      const auto instance = RandomInstance(random, sample.schema).make();
      GrammarState state(sample.grammar);
      for (const std::int32_t id :
           tokenizer.encode(written(instance.value_or(Value()), Style::spaced), text::Specials::as_text)) {
        if (!instance) break;
        const auto mask = mask_of(state, tokenizer.size(), {stop});
        int wrong = 0;
        for (std::int32_t other = 0; other < tokenizer.size(); ++other) {
          wrong += has_bit(mask, other) != (other == stop ? state.complete() : state.allows(other));
        }
        expect(wrong == 0_i && state.accept(id)) << text::to_json(*instance);
      }
      expect(!instance || state.complete());
    }
  };
};

}  // namespace
}  // namespace lapidary::test::grammar_random_test
