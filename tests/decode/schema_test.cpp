// Whatever pebble would rather say, its output fits the schema.
#include <boost/ut.hpp>

#include "decode/generate.hpp"
#include "reference/json_schema.hpp"
#include "support/cases.hpp"
#include "support/model.hpp"
#include "support/slow_build.hpp"
#include "text/detokenizer.hpp"
#include "text/grammar_samples.hpp"

namespace lapidary::test::schema_test {
namespace {

using namespace boost::ut;

constexpr int kSchemas = kSlowBuild ? 15 : 200;

const suite<"schemas"> schemas = [] {
  "output sampled under random schemas validates"_test = [] {
    const std::string folder = kRoot + "/models/pebble";
    Loaded model(folder, {.context_tokens = 160, .numeric = link::Numeric::fast});
    const text::Tokenizer tokenizer = text::Tokenizer::open(folder);
    const auto vocabulary = std::make_shared<const text::Vocabulary>(tokenizer);
    const auto prompt = tokenizer.encode("<bos><|turn>user\nGive me JSON.<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
    const std::int32_t stop = *tokenizer.special("<turn|>");

    int validated = 0, cut = 0;
    for (std::uint64_t seed = 1; validated < kSchemas; ++seed) {
      Random random(seed);
      const Value schema = RandomSchema(random).root();
      std::shared_ptr<const text::Grammar> grammar;
      if (error_of([&] { grammar = text::Grammar::schema(vocabulary, schema); })) continue;  // nothing satisfies it
      decode::Session session(model.program, *model.executor);
      decode::Generation generation(session, prompt,
                                    {.sampling = {.temperature = 1.2f, .top_k = 40, .seed = seed}, .max_tokens = 100,
                                     .stop_ids = {&stop, 1}, .constraint = decode::Constraint({.answer_grammar = grammar})});
      text::Detokenizer detokenizer(tokenizer);
      text::GrammarState walked(grammar);
      std::string output;
      while (const auto token = generation.next()) {
        output += detokenizer.push(*token);
        expect(walked.accept(*token)) << output;
      }
      if (generation.reason() != decode::StopReason::stop_token) {
        ++cut;
        continue;
      }
      const auto error = error_of([&] {
        expect(reference::JsonSchema(schema).accepts(text::parse_json(output + detokenizer.finish(), "output")))
            << text::to_json(schema) << "\n" << output;
      });
      expect(!error.has_value()) << output;
      ++validated;
    }
    expect(cut < 2 * kSchemas) << "most answers should end by themselves";
  };
};

}  // namespace
}  // namespace lapidary::test::schema_test
