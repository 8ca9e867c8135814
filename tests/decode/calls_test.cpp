// Tool calls under a constraint, through pebble: whatever it is made to say, its calls fit the tools.
#include <boost/ut.hpp>

#include "decode/generate.hpp"
#include "reference/json_schema.hpp"
#include "support/cases.hpp"
#include "support/model.hpp"
#include "text/output_parser.hpp"

namespace lapidary::test::calls_test {
namespace {

using namespace boost::ut;
using decode::Constraint;

const std::string kPebble = kRoot + "/models/pebble";

// Everything in it has an end, so that every call comes to its end within kMaxTokens.
constexpr int kMaxTokens = 400;
constexpr std::string_view kTools = R"([
  {"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{
    "city":{"type":"string","minLength":1,"maxLength":20},"days":{"type":"integer","minimum":1,"maximum":14},
    "unit":{"enum":["celsius","kelvin"]}},"required":["city","unit"]}}},
  {"type":"function","function":{"name":"weather_map","parameters":{"type":"object","properties":{
    "points":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"object","properties":{
      "x":{"type":"number"},"label":{"type":["string","null"],"maxLength":5}},"required":["x"]}},
    "Detailed":{"type":"boolean"}},"required":["points"]}}},
  {"type":"function","function":{"name":"stop"}}])";

struct Pebble {
  Loaded model{kPebble, {.context_tokens = 1024, .numeric = link::Numeric::fast}};
  text::Tokenizer tokenizer = text::Tokenizer::open(kPebble);
  text::Value tools = text::parse_json(kTools, "tools");
  decode::Markers call{*tokenizer.special("<|tool_call>"), *tokenizer.special("<tool_call|>")};
  std::vector<std::int32_t> stops{*tokenizer.special("<eos>"), *tokenizer.special("<turn|>"),
                                  *tokenizer.special("<|tool_response>")};
  std::shared_ptr<const text::Grammar> grammar = text::Grammar::calls(tokenizer, tools);

  const text::Value& parameters(std::string_view name) const {
    static const text::Value kNone = text::parse_json(R"({"type":"object","additionalProperties":false})", "none");
    for (const text::Value& tool : *tools.array()) {
      const text::Value& function = *tool.find("function");
      const text::Value* schema = function.find("parameters");
      if (*function.find("name")->string() == name) return schema ? *schema : kNone;
    }
    static const text::Value kUndeclared(false);
    return kUndeclared;
  }
};

const suite<"constrained calls"> constrained_calls = [] {
  "text is free, a call is not, and each call begins anew"_test = [] {
    const auto tokenizer = text::Tokenizer::open(kPebble);
    const decode::Markers call{*tokenizer.special("<|tool_call>"), *tokenizer.special("<tool_call|>")};
    const std::int32_t stop = *tokenizer.special("<turn|>");
    const auto grammar = text::Grammar::calls(tokenizer, text::parse_json(kTools, "tools"));
    Constraint constraint({.call_grammar = grammar, .call = call});
    std::vector<std::uint32_t> mask(text::mask_words(tokenizer.size()));
    const auto allows = [&](std::int32_t id) {
      constraint.fill_mask(mask, {&stop, 1});
      return (mask[static_cast<std::size_t>(id / 32)] >> (id % 32) & 1) != 0;
    };
    const auto hello = tokenizer.encode("hello");
    for (int round = 0; round < 2; ++round) {
      for (const std::int32_t id : hello) {
        expect(allows(id) && allows(stop) && allows(call.open));
        constraint.accept(id);
      }
      constraint.accept(call.open);
      for (const std::int32_t id : tokenizer.encode("call:stop{}")) {
        expect(allows(id) && !allows(stop) && !allows(call.open) && !allows(call.close) && !allows(hello.front()));
        constraint.accept(id);
      }
      expect(allows(call.close) && !allows(stop) && !allows(hello.front()));
      constraint.accept(call.close);
    }
    expect(allows(stop) && allows(hello.front()));
  };

  "every call names a declared tool and has valid arguments"_test = [] {
    Pebble pebble;
    // The prompt opens the call that the model then has to make.
    const auto prompt = pebble.tokenizer.encode("<bos><|turn>user\nHow is the weather?<turn|>\n<|turn>model\n<|tool_call>");
    std::vector<std::string> names;
    for (std::uint64_t seed = 0; seed < 16; ++seed) {
      Constraint constraint({.call_grammar = pebble.grammar, .call = pebble.call});
      constraint.accept(pebble.call.open);
      decode::Session session(pebble.model.program, *pebble.model.executor);
      decode::Generation generation(session, prompt,
                                    {.sampling = {.temperature = seed % 2 ? 1.0f : 20.0f, .seed = seed},
                                     .max_tokens = kMaxTokens, .stop_ids = pebble.stops, .constraint = constraint});
      text::OutputParser parser(pebble.tokenizer);
      parser.push(pebble.call.open);
      bool closed = false;
      while (!closed) {
        const auto token = generation.next();
        if (!token) break;
        closed = *token == pebble.call.close;
        for (const text::ToolCall& call : parser.push(*token).calls) {
          names.push_back(call.name);
          expect(reference::JsonSchema(pebble.parameters(call.name)).accepts(call.arguments))
              << seed << call.name << text::to_json(call.arguments);
        }
      }
      expect(closed) << "seed" << seed;
    }
    for (const char* name : {"weather", "weather_map"}) expect(std::ranges::find(names, name) != names.end()) << name;
  };
};

}  // namespace
}  // namespace lapidary::test::calls_test
