#include <boost/ut.hpp>

#include <algorithm>
#include <initializer_list>

#include "support/cases.hpp"
#include "support/golden_chat.hpp"
#include "support/random.hpp"
#include "text/chat.hpp"
#include "text/output_parser.hpp"
#include "text/tool_call.hpp"
#include "text/whitespace.hpp"

namespace lapidary::test::output_parser_test {

namespace {

using namespace boost::ut;
using text::Event;
using text::OutputParser;
using text::to_json;
using text::Tokenizer;
using text::ToolCall;
using text::Value;

const Tokenizer& pebble() {
  static const Tokenizer tokenizer = Tokenizer::open(kRoot + "/models/pebble");
  return tokenizer;
}

void append(Event& all, Event event) {
  all.reasoning += event.reasoning;
  all.content += event.content;
  std::move(event.calls.begin(), event.calls.end(), std::back_inserter(all.calls));
}

Event parsed(const Tokenizer& tokenizer, std::span<const std::int32_t> ids, bool inside_thought = false) {
  OutputParser parser(tokenizer, inside_thought ? text::Begin::in_thought : text::Begin::at_start);
  Event all;
  for (const std::int32_t id : ids) append(all, parser.push(id));
  append(all, parser.finish());
  return all;
}

Event parsed(std::string_view output, bool inside_thought = false) {
  return parsed(pebble(), pebble().encode(output), inside_thought);
}

std::string calls_json(const std::vector<ToolCall>& calls) {
  Value::Array list;
  for (const ToolCall& call : calls)
    list.push_back(Value::Object{{"name", Value(call.name)}, {"arguments", call.arguments}});
  return to_json(Value(list));
}

// The arguments of a call whose segments are given, as JSON; "none" when it is no call.
std::string arguments(std::initializer_list<std::string> segments) {
  const auto call = text::parse_tool_call(std::vector<std::string>(segments));
  return call ? to_json(call->arguments) : "none";
}

bool is_stripped(std::string_view text) { return text::strip(text) == text; }

// Keys in dictionary order, as the notation writes them.
Value random_argument(Random& random, int depth) {
  switch (random.below(depth > 0 ? 7 : 5)) {
    case 0: return Value();
    case 1: return Value(random.chance(2));
    case 2: return Value(static_cast<std::int64_t>(random.bits()) >> random.below(64));
    case 3: return Value(random.uniform(-1e6, 1e6));
    case 4: {
      constexpr std::string_view kParts[] = {"a", "Z",  "{",  "}", "[", "]",  ",",      ":", "\"",
                                             "\\", "\n", " ", "é", "🦙", "<turn>", "|", "0"};
      std::string text;
      for (int i = random.below(10); i > 0; --i) text += kParts[random.below(std::size(kParts))];
      return Value(text);
    }
    case 5: {
      Value::Array array;
      for (int i = random.below(4); i > 0; --i) array.push_back(random_argument(random, depth - 1));
      return Value(array);
    }
    default: {
      Value::Object object;
      const int count = random.below(4);
      for (int i = 0; i < count; ++i)
        object.emplace_back(std::string("k_") + static_cast<char>('a' + i), random_argument(random, depth - 1));
      return Value(object);
    }
  }
}

const suite<"output parser"> output_parser_suite = [] {
  for (const Value& entry : golden_chat("parser_cases")) {
    boost::ut::test("output " + *entry.find("id")->string()) = [&] {
      const Event event = parsed(*entry.find("raw")->string(), entry.find("prompt_ends_inside_thought")->truthy());
      const Value& expected = *entry.find("expected");
      expect(event.reasoning == *expected.find("reasoning")->string()) << event.reasoning;
      expect(event.content == *expected.find("content")->string()) << event.content;
      expect(calls_json(event.calls) == to_json(*expected.find("tool_calls"))) << calls_json(event.calls);
    };
  }

  boost::ut::test("text arrives with its token; white space waits for what follows it") = [] {
    OutputParser parser(pebble());
    std::vector<std::string> contents;
    for (const std::int32_t id : pebble().encode("\n One\n\n<|channel>thought\nhm \n<channel|>two \n<turn|>")) {
      std::string content = parser.push(id).content;
      if (!content.empty()) contents.push_back(content);
    }
    std::string all;
    for (const std::string& content : contents) {
      expect(text::whitespace_at_back(content) == 0_ul) << content;
      all += content;
    }
    expect(all == "One\n\ntwo") << all;
    expect(contents.size() > 1_ul);
    expect(parser.finish().content.empty());
  };

  boost::ut::test("what only looks like the head of a thought or turn is text") = [] {
    expect(parsed("<|channel>though").reasoning == "though");
    expect(parsed("<|channel>thoughtful<channel|>x").reasoning == "ful");
    expect(parsed("<|channel>analysis\nx<channel|>y").reasoning == "analysis\nx");
    expect(parsed("<|turn>modern times").content == "modern times");
    expect(parsed("thought\nmodel\n").content == "thought\nmodel");
  };

  boost::ut::test("calls come with the token that ends them") = [] {
    OutputParser parser(pebble());
    std::size_t calls = 0, last_calls = 0;
    const char* output = "<|tool_call>call:a{x:1}<tool_call|><|tool_call>call:b{}<|tool_response>";
    for (const std::int32_t id : pebble().encode(output)) {
      last_calls = parser.push(id).calls.size();
      calls += last_calls;
      if (id == pebble().special("<tool_call|>")) expect(calls == 1_ul);
    }
    expect(calls == 2_ul && last_calls == 1_ul);
    expect(parser.finish().calls.empty());
  };

  boost::ut::test("nothing comes after a stop token") = [] {
    expect(parsed("a<turn|>b").content == "a");
    expect(parsed("a<eos>b").content == "a");
    expect(parsed("a<|tool_response>b<|tool_call>call:f{}<tool_call|>").calls.empty());
  };

  boost::ut::test("structure that is spelled out is text") = [] {
    const std::string output = "<|channel>x<channel|><|tool_call>call:f{}<tool_call|><turn|>";
    const Event event = parsed(pebble(), pebble().encode(output, text::Specials::as_text));
    expect(event.content == output) << event.content;
    expect(event.calls.empty() && event.reasoning.empty());
  };

  boost::ut::test("a vocabulary without tools or thoughts still gives text") = [] {
    std::string json = read_text_file(kRoot + "/models/pebble/tokenizer.json");
    for (const std::string_view name : {"<|tool_call>", "<tool_call|>", "<|tool_response>", "<|channel>", "<channel|>",
                                        "<|turn>", "<|\\\"|>"}) {
      for (std::size_t at; (at = json.find(name)) != json.npos;) json[at + 1] = json[at + 1] == '|' ? '/' : '?';
    }
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json);
    const Tokenizer plain = Tokenizer::open(folder.path());
    expect(!plain.special("<|tool_call>") && !plain.special("<|\"|>") && plain.special("<turn|>").has_value());
    const Event event = parsed(plain, plain.encode(" <|tool_call>call:f{a:1}<tool_call|> <turn|>x"));
    expect(event.content == "<|tool_call>call:f{a:1}<tool_call|>" && event.calls.empty()) << event.content;
  };

  boost::ut::test("any ids give stripped text and no crash") = [] {
    Random random(3);
    const Tokenizer& tokenizer = pebble();
    const std::int32_t specials = 24;  // the first ids
    for (int round = 0; round < 300; ++round) {
      std::vector<std::int32_t> ids;
      for (int i = random.below(80); i > 0; --i) {
        const std::int32_t id = random.chance(3) ? random.below(specials) : random.below(tokenizer.size());
        const bool stops = id == tokenizer.special("<eos>") || id == tokenizer.special("<turn|>");
        if (!stops || random.chance(8)) ids.push_back(id);
      }
      const Event event = parsed(tokenizer, ids, random.chance(2));
      expect(is_stripped(event.content) && is_stripped(event.reasoning));
      for (const ToolCall& call : event.calls) expect(!call.name.empty() && call.arguments.object() != nullptr);
    }
  };
};

const suite<"tool calls"> tool_call_suite = [] {
  boost::ut::test("calls survive being written and read") = [] {
    Random random(5);
    for (int i = 0; i < 500; ++i) {
      const Value arguments(Value::Object{{"a", random_argument(random, 3)}, {"b", random_argument(random, 3)}});
      const ToolCall call{"ns.do-it:now", arguments};
      const std::string notation = text::format_call(call);
      const Event event = parsed("<|tool_call>" + notation + "<tool_call|>");
      expect(fatal(event.calls.size() == 1_ul)) << notation;
      expect(event.calls[0].name == call.name && event.calls[0].arguments == call.arguments)
          << notation << to_json(event.calls[0].arguments);
    }
  };

  boost::ut::test("calls are written with sorted bare keys") = [] {
    const Value arguments = text::parse_json(R"({"b": [1, 2.0, null], "A": {"x": "q\"{"}, "c": true})", "test");
    expect(text::format_call({"f", arguments}) == "call:f{A:{x:<|\"|>q\"{<|\"|>},b:[1,2.0,null],c:true}");
    expect(text::format_call({"f", Value()}) == "call:f{}");
  };

  boost::ut::test("sloppy notation is read as far as it makes sense") = [] {
    expect(arguments({"call:f{a:1,b:", "s", "}"}) == R"({"a":1,"b":"s"})");
    expect(arguments({"f{a:1}"}) == R"({"a":1})");
    expect(arguments({" call: f { a : 1 , b : x y } "}) == R"({"a":1,"b":"x y"})");
    expect(arguments({R"(call:f{"a\n": "x\u00e9}", "b": [" "]})"}) == R"({"a\n":"xé}","b":[" "]})");
    expect(arguments({"call:f{a:007,b:-0.5e2,c:+1,d:1.,e:-,g:1e999}"}) ==
           R"({"a":"007","b":-50.0,"c":"+1","d":"1.","e":"-","g":"1e999"})");
    expect(arguments({"call:f{n:123456789012345678901234567890}"}) == R"({"n":1.2345678901234568e+29})");
    expect(arguments({"call:f{a:1,a:2}"}) == R"({"a":2})");
    expect(arguments({"call:f{a:,b:[,1,],c:{}}"}) == R"({"a":null,"b":[1],"c":{}})");
    expect(arguments({"call:f{a:[1,2},b:3}"}) == R"({"a":[1,2]})");
    expect(arguments({"call:f{a:", "x", " junk ", "y", ",b:2}"}) == R"({"a":"x","b":2})");
    expect(arguments({"call:f{", "k}:", ":1}"}) == R"({"k}:":1})");
    expect(arguments({"call:f{}{b:1}"}) == "{}");
  };

  boost::ut::test("a call that breaks off keeps what was said") = [] {
    expect(arguments({"call:f{"}) == "{}");
    expect(arguments({"call:f{a"}) == "{}");
    expect(arguments({"call:f{a:"}) == "{}");
    expect(arguments({"call:f{a:1,b:[2,{c:3"}) == R"({"a":1,"b":[2,{"c":3}]})");
    expect(arguments({"call:f{a:", "half a str"}) == R"({"a":"half a str"})");
    expect(arguments({"call:f{a:\"half"}) == R"({"a":"half"})");
    expect(arguments({"call:f{", "key"}) == "{}");
    expect(arguments({"call:f"}) == "none");
    expect(arguments({"call:{a:1}"}) == "none");
    expect(arguments({"call:", "f", "{a:1}"}) == "none");
    expect(arguments({""}) == "none");
    expect(arguments({}) == "none");
  };

  boost::ut::test("endless nesting is cut") = [] {
    for (const std::string open : {"[", "{a:", "[{a:"}) {
      std::string deep = "call:f{x:1,a:";
      for (int i = 0; i < 300000; ++i) deep += open;
      const auto call = text::parse_tool_call(std::vector<std::string>{deep});
      expect(call && *call->arguments.find("x") == Value(1));
      expect(to_json(call->arguments).size() < 2000_ul);
    }
  };
};

const suite<"prompts as ids"> prompt_ids_suite = [] {
  boost::ut::test("rendered prompts have the ids the model was recorded with") = [] {
    const std::string path = kRoot + "/models/pebble/golden.json";
    const Value golden = text::parse_json(read_text_file(path), path);
    const text::Template with = text::choose_template(kRoot + "/models/pebble", false);
    for (const Value& entry : *golden.array()) {
      if (entry.find("images")) continue;
      const Value messages(Value::Array{Value::Object{{"role", Value("user")}, {"content", *entry.find("prompt")}}});
      const auto prompt = text::render(messages, Value(), with, {});
      expect(text::joined(prompt) == *entry.find("rendered")->string());
      Value::Array ids;
      for (const std::int32_t id : pebble().encode(prompt)) ids.push_back(Value(id));
      expect(Value(ids) == *entry.find("input_ids")) << *entry.find("prompt")->string();
    }
  };
};

}  // namespace

}  // namespace lapidary::test::output_parser_test
