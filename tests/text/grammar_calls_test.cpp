// Tool calls under a grammar: what is generated parses to valid arguments, and what is valid can be generated.
#include <boost/ut.hpp>

#include "reference/json_schema.hpp"
#include "support/cases.hpp"
#include "support/slow_build.hpp"
#include "text/grammar_samples.hpp"
#include "text/output_parser.hpp"

namespace lapidary::test::grammar_calls_test {
namespace {

using namespace boost::ut;
using text::Grammar;
using text::GrammarState;
using text::Vocabulary;

constexpr int kSchemas = kSlowBuild ? 30 : 150;

const text::Tokenizer& pebble() {
  static const auto tokenizer = text::Tokenizer::open(kRoot + "/models/pebble");
  return tokenizer;
}

Value tool(std::string_view name, Value parameters) {
  return Value::Object{{"type", "function"},
                       {"function", Value::Object{{"name", name}, {"parameters", std::move(parameters)}}}};
}

std::shared_ptr<const Grammar> grammar_of(std::string_view parameters) {
  return Grammar::calls(small_vocabulary(), Value::Array{tool("f", json(parameters))});
}

// With <|"|> as the byte that stands for it.
std::string with_quote_bytes(std::string call) {
  constexpr std::string_view kQuote = "<|\"|>";
  for (std::size_t at; (at = call.find(kQuote)) != call.npos;) call.replace(at, kQuote.size(), 1, '\xff');
  return call;
}

struct Sample {
  Value schemas[2];  // of the tools "get" and "get_all"
  std::shared_ptr<const Grammar> small, whole;
};

Value random_parameters(Random& random) {
  while (true) {
    Value schema = RandomSchema(random, Names::bare).root();
    const Value* type = schema.find("type");
    if (type && type->string() && *type->string() == "object") return schema;
  }
}

std::vector<Sample> samples(int count, std::uint64_t seed) {
  static const auto small = small_vocabulary();
  static const auto whole = std::make_shared<const Vocabulary>(pebble(), *pebble().special("<|\"|>"));
  Random random(seed);
  std::vector<Sample> result;
  while (static_cast<int>(result.size()) < count) {
    Sample sample{{random_parameters(random), random_parameters(random)}, nullptr, nullptr};
    const Value tools = Value::Array{tool("get", sample.schemas[0]), tool("get_all", sample.schemas[1])};
    const auto error = error_of([&] {
      sample.small = Grammar::calls(small, tools);
      sample.whole = Grammar::calls(whole, tools);
      result.push_back(sample);
    });
    if (error) expect(error->message().find("some value satisfies") != std::string::npos) << error->message();
  }
  return result;
}

std::vector<text::ToolCall> parsed(const std::vector<std::int32_t>& ids) {
  text::OutputParser parser(pebble());
  parser.push(*pebble().special("<|tool_call>"));
  for (const std::int32_t id : ids) parser.push(id);
  return parser.push(*pebble().special("<tool_call|>")).calls;
}

int wrong_bits(const GrammarState& state) {
  const std::int32_t stop = *pebble().special("<tool_call|>");
  const auto mask = mask_of(state, pebble().size(), {stop});
  int wrong = 0;
  for (std::int32_t id = 0; id < pebble().size(); ++id) {
    wrong += has_bit(mask, id) != (id == stop ? state.complete() : state.allows(id));
  }
  return wrong;
}

suite<"grammar of calls"> calls_suite = [] {
  boost::ut::test("notation: bare keys, raw strings, no white space") = [] {
    struct Texts {
      const char* parameters;
      std::vector<const char*> complete, refused;
    };
    for (const Texts& texts : std::vector<Texts>{
             {R"({"type":"object","properties":{"s":{"type":"string"}},"required":["s"]})",
              {"call:f{s:\xff\xff}", "call:f{s:\xff" "a\"b\\c\n}],{:\x01\xc3\xa9\xff}"},
              {"call:f{}", "call:f{ ", "call:f{s: ", "call:f{s:\"", "call:f{\"", "call:g", "f", "{", "call:f{s:\xff\x80",
               "call:f{s:\xff\xff ", "call:f{s:\xff\xff,", "call:f{s:\xff\xff}}"}},
             {R"({"type":"object","properties":{"Zeta":{"type":"null"},"b":{"type":"integer"},"A":{"type":"boolean"},
                  "\u00e9":{"type":"number"}}})",
              {"call:f{}", "call:f{A:true,b:-12,Zeta:null,\xc3\xa9:1.5e3}", "call:f{b:1,Zeta:null}"},
              {"call:f{Zeta:null,b", "call:f{A:true,A", "call:f{c", "call:f{A:1"}},
             {R"({"type":"object","properties":{"s":{"type":"string","minLength":2,"maxLength":3}}})",
              {"call:f{s:\xff" "a\n\xff}", "call:f{s:\xff\xc3\xa9\"\"\xff}"},
              {"call:f{s:\xff" "a\xff", "call:f{s:\xff" "abcd"}},
             {R"({"type":"object","properties":{"e":{"enum":["a","",1,12,0.5,null,true,[1,"x"],{"B":"y","a":{}}]}}})",
              {"call:f{e:\xff" "a\xff}", "call:f{e:\xff\xff}", "call:f{e:1}", "call:f{e:12}", "call:f{e:0.5}",
               "call:f{e:null}", "call:f{e:true}", "call:f{e:[1,\xffx\xff]}", "call:f{e:{a:{},B:\xffy\xff}}"},
              {"call:f{e:\"", "call:f{e:{B", "call:f{e:13", "call:f{e:[1,x"}},
             {R"({"type":"object","properties":{"na":{"type":"null"},"a b":{"type":"null"}},
                  "additionalProperties":{"type":"integer"}})",
              {"call:f{}", "call:f{n:1}", "call:f{a b:null,na:null,nam.e-_9:2,Z:3}"},
              {"call:f{na:1", "call:f{:", "call:f{n:1,na:", "call:f{\xc3", "call:f{n ", "call:f{\""}},
             {R"({"type":"object"})", {"call:f{}", "call:f{a:{b:[1,\xff\xff,{}]},c:false}"}, {"call:f{:", "call:f{a:x"}},
             {R"({"type":"object","properties":{}})", {"call:f{}"}, {"call:f{a"}},
             {"null", {"call:f{}"}, {"call:f{a"}},
             {"{}", {"call:f{}"}, {"call:f{a"}},
         }) {
      const auto grammar = grammar_of(texts.parameters);
      for (const char* text : texts.complete) expect(reads(grammar, text) == 2_i) << texts.parameters << text;
      for (const char* text : texts.refused) expect(reads(grammar, text) == 0_i) << texts.parameters << text;
    }
  };

  boost::ut::test("each name comes with its own arguments") = [] {
    const auto schema = [](std::string_view type) {  // the same reference means something else in each
      return json(R"({"type":"object","properties":{"x":{"$ref":"#/$defs/v"}},"$defs":{"v":{"type":")" + std::string(type) +
                  "\"}}}");
    };
    const auto grammar =
        Grammar::calls(small_vocabulary(), Value::Array{tool("get", schema("null")), tool("get_x", schema("boolean"))});
    for (const char* text : {"call:get{x:null}", "call:get_x{x:true}"}) expect(reads(grammar, text) == 2_i) << text;
    for (const char* text : {"call:get{x:t", "call:get_x{x:n", "call:get_{"}) expect(reads(grammar, text) == 0_i) << text;
  };

  boost::ut::test("what cannot be written or called is an error that names it") = [] {
    const auto message = [](std::string_view tools, ErrorKind kind) {
      const auto error = error_of([&] { Grammar::calls(small_vocabulary(), json(tools)); });
      return !error ? "no error" : error->kind == kind ? error->message() : "kind " + std::string(name_of(error->kind));
    };
    const auto with = [](std::string_view parameters) {
      return R"([{"function":{"name":"f","parameters":)" + std::string(parameters) + "}}]";
    };
    for (const char* name : {"", "a:b", "a,b", "{", "}", "[", "]", "\\\"", " a", "a ", "a\\n"}) {
      const std::string key = "\"" + std::string(name) + "\"";
      for (const std::string& parameters :
           {R"({"type":"object","properties":{)" + key + ":{}}}", R"({"type":"object","required":[)" + key + "]}",
            R"({"type":"object","properties":{"a":{"const":[{)" + key + ":1}]}}}"}) {
        const std::string got = message(with(parameters), ErrorKind::unsupported);
        expect(got.find("tools[0].function.parameters.") != std::string::npos) << parameters << got;
      }
    }
    for (const char* parameters :
         {"true", "1", R"({"type":"string"})", R"({"type":["object","null"]})", R"({"anyOf":[{"type":"object"}]})"}) {
      expect(message(with(parameters), ErrorKind::unsupported).find("the type object") != std::string::npos) << parameters;
    }
    expect(message(R"([{"function":{"name":"a{"}}])", ErrorKind::unsupported).find("tools[0].function.name") !=
           std::string::npos);
    expect(message(with(R"({"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"contains":{}}}})"),
                   ErrorKind::unsupported).find("tools[0].function.parameters.$defs.x.contains") != std::string::npos);
    expect(message(with(R"({"type":"object","properties":{"a":false},"required":["a"]})"), ErrorKind::bad_value)
               .find("some value satisfies") != std::string::npos);
    expect(message("[]", ErrorKind::bad_value).find("at least one tool") != std::string::npos);
    expect(message("{}", ErrorKind::wrong_type).find("tools, expected a list") != std::string::npos);
    expect(message("[{}]", ErrorKind::missing_key).find("tools[0].function") != std::string::npos);
  };

  boost::ut::test("a tokenizer without the tokens of calls is refused") = [] {
    const std::string path = kRoot + "/models/pebble/tokenizer.json";
    for (const std::string_view name : {"<|tool_call>", "<tool_call|>", "<|\\\"|>"}) {
      std::string json = read_text_file(path);
      for (std::size_t at; (at = json.find(name)) != json.npos;) json[at + 1] = '?';
      const auto tokenizer = text::Tokenizer::parse(json, path);
      const auto error = error_of([&] { Grammar::calls(tokenizer, Value::Array{tool("f", Value())}); });
      expect(error && error->kind == ErrorKind::unsupported) << name;
    }
  };

  boost::ut::test("only the token <|\"|> delimits strings") = [] {
    GrammarState state(Grammar::calls(
        pebble(),
        Value::Array{tool("f", json(R"({"type":"object","properties":{"s":{"type":"string"}},"required":["s"]})"))}));
    for (const std::int32_t id : pebble().encode("call:f{s:")) expect(state.accept(id));
    expect(ids_of(mask_of(state, pebble().size(), {})) == std::vector{*pebble().special("<|\"|>")});
    expect(state.accept(*pebble().special("<|\"|>")));
    for (const char* name : {"<|tool_call>", "<tool_call|>", "<turn|>", "<eos>"}) {
      expect(!state.allows(*pebble().special(name)) && !state.accept(*pebble().special(name))) << name;
    }
  };

  boost::ut::test("what is generated parses to arguments that the tool's schema accepts") = [] {
    Random random(1);
    const std::int32_t stop = *pebble().special("<tool_call|>");
    int seen[2] = {};
    for (const Sample& sample : samples(kSchemas, 2)) {
      const Vocabulary& vocabulary = sample.whole->vocabulary();
      const auto bytes = byte_ids(vocabulary);
      GrammarState state(sample.whole);
      std::vector<std::int32_t> ids;
      for (int left = 10 + random.below(60); left > 0; --left) {
        const auto mask = mask_of(state, pebble().size(), {stop});
        expect(has_bit(mask, stop) == state.complete());
        const std::int32_t id = random_token(random, mask, vocabulary);
        if (id == stop) break;
        expect(state.accept(id));
        ids.push_back(id);
      }
      const auto end = shortest_end(state, bytes);
      expect(end.has_value()) << "stuck";
      for (const char c : end.value_or("")) ids.push_back(bytes[static_cast<unsigned char>(c)]);

      const auto calls = parsed(ids);
      expect(calls.size() == 1_ul && (calls[0].name == "get" || calls[0].name == "get_all"));
      if (calls.size() != 1) continue;
      const int which = calls[0].name == "get" ? 0 : 1;
      ++seen[which];
      expect(reference::JsonSchema(sample.schemas[which]).accepts(calls[0].arguments))
          << text::to_json(sample.schemas[which]) << text::to_json(calls[0].arguments);
    }
    expect(seen[0] > kSchemas / 8 && seen[1] > kSchemas / 8);
  };

  boost::ut::test("what the schema accepts can be generated, in bytes and in the tokenizer's pieces; masks are exact") = [] {
    Random random(3);
    int instances = 0;
    for (const Sample& sample : samples(kSchemas, 4)) {
      const int which = random.below(2);
      const auto arguments = RandomInstance(random, sample.schemas[which], Names::bare).make();
      if (!arguments) continue;
      ++instances;
      const std::string call = text::format_call({which == 0 ? "get" : "get_all", *arguments});
      expect(reads(sample.small, with_quote_bytes(call)) == 2_i) << text::to_json(sample.schemas[which]) << call;

      const auto ids = pebble().encode(call);
      GrammarState state(sample.whole);
      bool accepted = true;
      for (const std::int32_t id : ids) {
        if (random.chance(16)) expect(wrong_bits(state) == 0_i) << call;
        accepted = accepted && state.accept(id);
      }
      expect(accepted && state.complete() && wrong_bits(state) == 0) << call;
      const auto calls = parsed(ids);
      expect(calls.size() == 1_ul && text::format_call(calls[0]) == call) << call;
    }
    expect(instances > kSchemas * 2 / 3) << instances;
  };
};

}  // namespace
}  // namespace lapidary::test::grammar_calls_test
