// JSON Schema keyword by keyword: which texts a grammar takes, and which schemas it refuses.
#include <boost/ut.hpp>

#include "support/cases.hpp"
#include "text/grammar_samples.hpp"

namespace lapidary::test::grammar_schema_test {
namespace {

using namespace boost::ut;
using text::Grammar;

const auto kVocabulary = small_vocabulary();

struct Texts {
  const char* schema;
  std::vector<const char*> complete;
  std::vector<const char*> refused;  // no beginnings
};

void check(const std::vector<Texts>& cases) {
  for (const Texts& texts : cases) {
    const auto grammar = Grammar::schema(kVocabulary, json(texts.schema));
    for (const char* text : texts.complete) expect(reads(grammar, text) == 2_i) << texts.schema << text;
    for (const char* text : texts.refused) expect(reads(grammar, text) == 0_i) << texts.schema << text;
  }
}

// The error of a schema if it has the kind, else what happened instead.
std::string message_of(std::string_view schema, ErrorKind kind) {
  const auto error = error_of([&] { Grammar::schema(kVocabulary, json(schema)); });
  if (!error) return "no error";
  return error->kind == kind ? error->message() : "kind " + std::string(name_of(error->kind));
}

std::string nested(std::string_view open, std::string_view middle, std::string_view close, int depth) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += middle;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

suite<"grammar of schemas"> schema_suite = [] {
  boost::ut::test("types") = [] {
    check({
        {R"({"type":"null"})", {"null"}, {"t", "\"", "1"}},
        {R"({"type":"boolean"})", {"true", "false"}, {"n", "1"}},
        {R"({"type":"integer"})",
         {"0", "-7", "123", "999999999999999999"},
         {"1.", "1e", "-0", "01", "1000000000000000000"}},
        {R"({"type":"number"})", {"0", "-7.5e-3", "12"}, {"\"", "t"}},
        {R"({"type":"string"})", {"\"\"", "\"\xe6\xbc\xa2\""}, {"1", "\"\x80"}},
        {R"({"type":["string","null"],"minLength":1})", {"null", "\"a\""}, {"\"\"", "1"}},
        {R"({"type":"array"})", {"[]", "[1,{\"a\":[]}]"}, {"{"}},
        {R"({"type":"object"})", {"{}", "{\"a\":1,\"\\n\":[]}"}, {"["}},
        {R"({})", {"1", "{\"a\":[null]}"}, {"x"}},
        {R"(true)", {"1", "[]"}, {"x"}},
    });
  };

  boost::ut::test("bounds of integers") = [] {
    check({
        {R"({"type":"integer","minimum":0,"maximum":150})",
         {"0", "9", "10", "99", "100", "149", "150"},
         {"-", "151", "160", "200", "1000", "00"}},
        {R"({"type":"integer","minimum":-12,"maximum":-3})",
         {"-3", "-9", "-10", "-12"},
         {"-13", "-20", "1", "0", "-0", "-100"}},
        {R"({"minimum":37})", {"37", "39", "40", "99", "100", "5000"}, {"-", "0", "36,"}},
        {R"({"type":"integer","exclusiveMinimum":4.5,"exclusiveMaximum":7})", {"5", "6"}, {"4", "7", "50", "-"}},
        {R"({"type":"integer","minimum":-1e300,"maximum":-0.5})", {"-1", "-999999999999999999"}, {"0", "-0"}},
        {R"({"type":"integer","minimum":1234,"maximum":1240})",
         {"1234", "1239", "1240"},
         {"1233", "1241", "124 ", "13"}},
    });
  };

  boost::ut::test("lengths count characters, not bytes") = [] {
    check({
        {R"({"type":"string","minLength":2,"maxLength":3})",
         {"\"ab\"", "\"\xe6\xbc\xa2\xf0\x9f\x98\x80\"", "\"a\\n\\u00e9\"", "\"\\ud83d\\ude00\\ud83d\\ude00\""},
         {"\"a\"", "\"abcd", "\"abc\xe6", "\"abc\\"}},
        {R"({"type":"string","maxLength":0})", {"\"\""}, {"\"a"}},
        {R"({"type":"string","minLength":2})", {"\"abcdefgh\""}, {"\"a\"", "\"\xc3\xa9\""}},
    });
  };

  boost::ut::test("enum and const") = [] {
    check({
        {R"({"enum":["red","green","reddish",1,12,null,1.5]})",
         {"\"red\"", "\"reddish\"", "1", "12", "null", "1.5"},
         {"\"r\"", "\"redd\"", "13", "2", "true"}},
        {R"({"const":{"a":[1,"\n"]}})", {R"({"a":[1,"\n"]})"}, {"{}", "{ ", R"({"a": )"}},
        {R"({"type":"string","enum":["a",1,null]})", {"\"a\""}, {"1", "n"}},
        {R"({"enum":["a","b"],"const":"b"})", {"\"b\""}, {"\"a"}},
    });
  };

  boost::ut::test("objects: order, optional and additional properties") = [] {
    check({
        {R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"type":"boolean"}},"required":["b"]})",
         {R"({"b":null})", R"({"a":1,"b":null})", R"({"a": 1, "b": null, "c": true})", R"({"b":null,"c":true})"},
         {"{}", "{ }", R"({"c)", R"({"b":null,"a)", R"({"a":1,"c)", R"({"a":1})", R"({"a":1,"a)", R"({"b":null,"d)",
          R"({"b":null,"b)"}},
        {R"({"properties":{"na":{},"name":{},"nam":{}}})",
         {R"({"na":1,"name":2})", R"({"name":2,"nam":3})", "{}"},
         {R"({"n":)", R"({"nam":1,)"}},
        {R"({"type":"object","properties":{"na":{},"name":{"type":"null"}},"additionalProperties":{"type":"integer"}})",
         {R"({"na":"x","n":1,"names":2,"x":3})", R"({"nam":1})", R"({"name":null})", R"({"":1})", "{\"n\xc3\xa9\":1}",
          R"({"x":1,"x":2})"},
         {R"({"name":1)", R"({"n":1,"na":)", R"({"n":"x)", R"({"\)", R"({"n":1,"name":)"}},
        {"{\"properties\":{\"\xc3\xa9\":{},\"\xc3\xa9\xc3\xa9\":{}},\"additionalProperties\":true}",
         {"{\"\xc3\xa9\":1,\"\xc3\xa8\":2}", "{\"\xc3\xa9\xc3\xa8\":2}", "{\"\xc4\xa9\":2}"},
         {"{\"\xc3\"", "{\"\xc3\xa9\xc3\xa9\":1,\"\xc3\xa9\":"}},
        {R"({"type":"object","properties":{"a\"b":{"type":"null"}},"required":["a\"b"]})",
         {R"({"a\"b":null})"},
         {R"({"a"b)"}},
        {R"({"type":"object","required":["x"]})", {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"y)"}},
        {R"({"properties":{"a":{"type":"null"}},"required":["x"]})",
         {R"({"x":[]})", R"({"a":null,"x":1})"},
         {"{}", R"({"y)"}},
        {R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":1})"}, {R"({"a)"}},
        {R"({"type":"object","additionalProperties":false})", {"{}", "{ }"}, {"{\""}},
    });
  };

  boost::ut::test("arrays") = [] {
    check({
        {R"({"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":3})",
         {"[1,2]", "[1, 2, 3]"},
         {"[]", "[1]", "[1,2,3,", "[\""}},
        {R"({"items":{"type":"null"},"minItems":1})", {"[null]", "[null,null,null,null]"}, {"[]", "[null,]"}},
        {R"({"prefixItems":[{"type":"integer"},{"type":"string"}]})",
         {"[]", "[1]", "[1,\"a\"]"},
         {"[\"", "[1,2", "[1,\"a\","}},
        {R"({"prefixItems":[{"type":"integer"}],"items":{"type":"null"},"minItems":2})",
         {"[1,null]", "[1,null,null]"},
         {"[1]", "[1,2"}},
        {R"({"type":"array","items":{"type":"null"},"maxItems":0})", {"[]"}, {"[n"}},
        {R"({"type":"array","items":false})", {"[]"}, {"[1", "[\""}},
    });
  };

  boost::ut::test("alternatives and references") = [] {
    check({
        {R"({"anyOf":[{"type":"integer","maximum":5},{"type":"number"},{"type":"string","maxLength":1},{"const":"abc"}]})",
         {"5", "77", "7.5", "\"x\"", "\"abc\""},
         {"\"ab\"", "t"}},
        {R"({"anyOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}}},{"properties":{"k":{"const":"ab"},"x":{"type":"integer"}}}]})",
         {R"({"k":"a","x":null})", R"({"k":"ab","x":1})", R"({"x":1})", R"({"x":null})"},
         {R"({"k":"a","x":1)", R"({"k":"ab","x":n)"}},
        {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}},"required":["k"]},{"type":"object","properties":{"k":{"const":2}},"required":["k"]}]})",
         {R"({"k":1})", R"({"k":2})"},
         {R"({"k":3)", "{}"}},
        {R"({"allOf":[{"$ref":"#/$defs/x"}],"description":"d","$defs":{"x":{"type":"null"}}})", {"null"}, {"1"}},
        {R"({"$ref":"#/definitions/a~1b~0","definitions":{"a/b~":{"type":"null"}}})", {"null"}, {"1"}},
        {R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"]})",
         {R"({"next":null})", R"({"next":{"next":{"next":null}}})"},
         {R"({"next":1)", "{}"}},
        {R"({"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/t"}},{"type":"array","items":{"$ref":"#/$defs/t"}},{"$ref":"#/$defs/t"}]}}})",
         {"[]", "[[],[[[]]]]", "[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]"},
         {"[1"}},
    });
  };

  boost::ut::test("multiples") = [] {
    check({
        {R"({"type":"integer","multipleOf":5})", {"0", "5", "-10", "999999999999999995"}, {"01", "-0", "1000000000000000000"}},
        {R"({"type":"integer","multipleOf":7,"minimum":-15,"maximum":22})", {"-14", "-7", "0", "7", "21"}, {"3", "28", "-2", "20"}},
        {R"({"multipleOf":1})", {"3"}, {"\""}},
        {R"({"type":"integer","multipleOf":4000,"exclusiveMinimum":4000,"maximum":12000})", {"8000", "12000"}, {"4", "0"}},
    });
    const auto grammar = Grammar::schema(kVocabulary, json(R"({"type":"integer","multipleOf":5})"));
    expect(reads(grammar, "12") == 1_i) << "a beginning";
  };

  boost::ut::test("patterns") = [] {
    check({
        {R"({"type":"string","pattern":"^a+b?$"})", {"\"a\"", "\"aaab\""}, {"\"b", "\"\"", "\"abb", "\"ac", "1"}},
        {R"({"type":"string","pattern":"b"})", {"\"b\"", "\"abc\"", "\"\\nb\\\"\""}, {"\"\"", "\"ac\""}},
        {R"({"pattern":"^(foo|ba[rz])$"})", {"\"foo\"", "\"bar\"", "\"baz\""}, {"\"bax", "\"foob", "1"}},
        {R"({"type":"string","pattern":"^a|b$"})", {"\"ax\"", "\"xb\""}, {"\"xa\""}},
        {R"({"type":"string","pattern":"^\\d{2,3}-[^0-9]$"})", {"\"12-x\"", "\"123-\xc3\xa9\""}, {"\"1-", "\"1234", "\"12-3"}},
        {R"({"type":"string","pattern":"^[\\w.-]+$"})", {"\"a_b.c-9\""}, {"\" ", "\"\"", "\"@"}},
        {R"({"type":"string","pattern":"^\"\\\\\\n.$"})", {R"("\"\\\nx")"}, {R"("\"\\\n\n)", R"("\"\\x)"}},
        {R"({"type":"string","pattern":"^\u6f22{2}$"})", {"\"\xe6\xbc\xa2\xe6\xbc\xa2\""}, {"\"\xe6\xbc\xa2\"", "\"a"}},
        {R"({"type":"string","pattern":"^(a*)*$"})", {"\"\"", "\"aaa\""}, {"\"b"}},
        {R"({"type":"string","pattern":"^(?:ab){2,}?$"})", {"\"abab\"", "\"ababab\""}, {"\"ab\"", "\"aba\""}},
        {R"({"type":"string","pattern":""})", {"\"\"", "\"x\""}, {"1"}},
        {R"({"type":"string","pattern":"^[]a-]$"})", {"\"]\"", "\"a\"", "\"-\""}, {"\"b"}},
    });
  };

  boost::ut::test("formats") = [] {
    check({
        {R"({"type":"string","format":"date"})", {"\"2026-11-16\"", "\"2024-02-28\""}, {"\"2026-13", "\"2026-02-30", "\"2026-04-31", "\"26-"}},
        {R"({"type":"string","format":"time"})", {"\"23:59:59Z\"", "\"00:00:00.5+01:00\""}, {"\"24", "\"12:60", "\"12:00:00\""}},
        {R"({"type":"string","format":"date-time"})", {"\"2026-11-16T08:00:00Z\""}, {"\"2026-11-16 "}},
        {R"({"type":"string","format":"uuid"})", {"\"123e4567-e89b-12d3-a456-426614174000\""}, {"\"123e4567e", "\"g"}},
        {R"({"type":"string","format":"email"})", {"\"a.b+c@example.org\""}, {"\"@", "\"a@b\"", "\"a..b"}},
        {R"({"type":"string","format":"ipv4"})", {"\"127.0.0.1\"", "\"255.255.255.255\""}, {"\"256", "\"1.2.3\"", "\"01"}},
        {R"({"type":["string","null"],"format":"date"})", {"null", "\"2026-11-16\""}, {"1"}},
    });
  };

  boost::ut::test("objects that must all hold") = [] {
    check({
        {R"({"allOf":[{"$ref":"#/$defs/base"},{"type":"object","properties":{"b":{"type":"integer"}},"required":["b"]}],
             "$defs":{"base":{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}}})",
         {R"({"a":null,"b":1})"}, {R"({"a":null})", R"({"b")", R"({"a":1)"}},
        {R"({"allOf":[{"properties":{"a":{"type":"null"}}},{"properties":{"b":{"allOf":[{"type":"integer"}]}}}]})",
         {"{}", R"({"a":null})", R"({"b":3})"}, {R"({"c")", "1"}},
    });
  };

  boost::ut::test("annotations are ignored") = [] {
    check(
        {{R"({"$schema":"s","$id":"i","$comment":"c","title":"t","description":"d","default":1,"examples":[1],"deprecated":true,
               "readOnly":true,"writeOnly":true,"type":"number","format":"double"})",
          {"1.5"},
          {"n"}}});
  };

  boost::ut::test("unsupported keywords are named with their path") = [] {
    for (const auto& [schema, mentions] : std::vector<std::pair<const char*, const char*>>{
             {R"({"properties":{"age":{"type":"integer","multipleOf":0.5}}})",
              "[schema] properties.age.multipleOf, expected "},
             {R"({"type":"integer","multipleOf":1001})", "multipleOf, expected at most 1000 without bounds"},
             {R"({"type":"integer","multipleOf":7,"minimum":0})", "multipleOf, expected at most 1024 multiples between bounds"},
             {R"({"type":"number","multipleOf":5})", "multipleOf"},
             {R"({"type":"string","pattern":"(?=a)b"})", "[schema] pattern, expected a regular expression with no look-around"},
             {R"({"type":"string","pattern":"(a)\\1"})", "pattern, expected a regular expression with no '\\1'"},
             {R"({"type":"string","pattern":"(a"})", "a ')' for every '('"},
             {R"x({"type":"string","pattern":"a)"})x", "a ')' elsewhere"},
             {R"({"type":"string","pattern":"[a"})", "a ']' for every '['"},
             {R"({"type":"string","pattern":"[z-a]"})", "a range that ascends"},
             {R"({"type":"string","pattern":"a{3,2}"})", "{N}, {N,} or {N,M}"},
             {R"({"type":"string","pattern":"a{99999}"})", "at most 1000 repetitions"},
             {R"({"type":"string","pattern":"((a{1000}){1000}){1000}"})", "smaller when written out"},
             {R"x({"type":"string","pattern":"(^a)"})x", "a '^' elsewhere"},
             {R"({"type":"string","pattern":"a$b"})", "a 'b' elsewhere"},
             {R"({"type":"string","pattern":"*"})", "a '*' elsewhere"},
             {R"({"type":"string","pattern":"a","minLength":1})", "minLength, expected no such keyword beside pattern"},
             {R"({"type":"string","pattern":"a","format":"date"})", "pattern, expected no such keyword beside format"},
             {R"({"type":"string","format":"color"})", "[schema] format"},
             {R"({"items":{"not":{}}})", "items.not"},
             {R"({"anyOf":[{},{"if":{}}]})", "anyOf[1].if"},
             {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
             {R"({"type":"object","minProperties":1})", "minProperties"},
             {R"({"type":"object","patternProperties":{}})", "patternProperties"},
             {R"({"$ref":"#/$defs/x","$defs":{"x":{"contains":{}}}})", "$defs.x.contains"},
             {R"({"type":"number","minimum":0})", "minimum"},
             {R"({"anyOf":[{}],"type":"object"})", "type, expected no such keyword beside anyOf"},
             {R"({"enum":["a"],"minLength":1})", "minLength, expected no such keyword beside enum"},
             {R"({"allOf":[{},{}]})", "allOf"},
             {R"({"allOf":[{"type":"object"},{"type":"string"}]})", "allOf"},
             {R"({"allOf":[{"properties":{"a":{}}},{"properties":{"a":{}}}]})", "allOf"},
             {R"({"allOf":[{"properties":{"a":{}}},{"type":"object","additionalProperties":false}]})", "allOf"},
             {R"({"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"},{"type":"object"}]}}})", "allOf"},
             {R"({"$ref":"https://example.org/x"})", "$ref"},
             {R"({"$ref":"#/$defs/missing","$defs":{}})", "$ref"},
             {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "oneOf"},
             {R"({"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]})",
              "oneOf"},
             {R"({"oneOf":[{"$ref":"#"},{"$ref":"#"}]})", "oneOf"},
             {R"({"oneOf":[{"const":1},{"const":1.0}]})", "oneOf"},
         }) {
      const std::string message = message_of(schema, ErrorKind::unsupported);
      expect(message.find(mentions) != std::string::npos) << schema << message;
    }
  };

  boost::ut::test("oneOf whose alternatives exclude each other") = [] {
    for (
        const char* schema : {
            R"({"oneOf":[{"type":"integer"},{"type":"string"},{"type":"null"}]})",
            R"({"oneOf":[{"const":1},{"const":2},{"enum":["a","b"]},{"type":"object"}]})",
            R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"object","properties":{"b":{}},"additionalProperties":false}]})",
            R"({"oneOf":[{"$ref":"#/$defs/x"},{"anyOf":[{"type":"null"},{"type":"array"}]}],"$defs":{"x":{"type":"string"}}})",
        }) {
      expect(message_of(schema, ErrorKind::unsupported) == "no error") << schema;
    }
  };

  boost::ut::test("schemas that make no sense") = [] {
    for (const char* schema :
         {"1", "[]", R"({"properties":1})", R"({"properties":{"a":1}})", R"({"required":"a"})", R"({"required":[1]})",
          R"({"type":1})", R"({"enum":1})", R"({"anyOf":{}})", R"({"minLength":"1"})", R"({"minLength":1.5})",
          R"({"minimum":"1"})", R"({"$ref":1})", R"({"items":[{}]})", R"({"prefixItems":{}})"}) {
      expect(message_of(schema, ErrorKind::wrong_type).starts_with("[schema] "))
          << schema << message_of(schema, ErrorKind::wrong_type);
    }
    for (const char* schema : {R"({"type":"text"})", R"({"type":[]})", R"({"anyOf":[]})", R"({"minLength":-1})"}) {
      expect(message_of(schema, ErrorKind::bad_value).starts_with("[schema] "))
          << schema << message_of(schema, ErrorKind::bad_value);
    }
  };

  boost::ut::test("schemas that no value satisfies") = [] {
    for (const char* schema :
         {"false", R"({"enum":[]})", R"({"type":"string","const":1})", R"({"type":"integer","minimum":2,"maximum":1})",
          R"({"type":"string","minLength":2,"maxLength":1})", R"({"type":"array","minItems":2,"maxItems":1})",
          R"({"$ref":"#"})", R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
          R"({"anyOf":[false,{"$ref":"#"}]})",
          R"({"type":"object","properties":{},"additionalProperties":false,"required":["a"]})"}) {
      const std::string message = message_of(schema, ErrorKind::bad_value);
      expect(message.find("some value satisfies") != std::string::npos) << schema << message;
    }
  };

  boost::ut::test("nesting that a schema requires is kept within the limit") = [] {
    // Three levels at a time: none may be opened that could not be closed.
    const auto grammar = Grammar::schema(kVocabulary, json(R"({"$ref":"#/$defs/a","$defs":{
        "a":{"type":"array","items":{"$ref":"#/$defs/b"},"minItems":1,"maxItems":1},
        "b":{"type":"array","items":{"$ref":"#/$defs/c"},"minItems":1,"maxItems":1},
        "c":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}}})"));
    expect(reads(grammar, nested("[", "null", "]", 64)) == 2_i);
    expect(reads(grammar, std::string(65, '[')) == 0_i);
  };

  boost::ut::test("bombs are errors, not crashes") = [] {
    const auto refused = [](std::string_view schema) {
      const auto error = error_of([&] { Grammar::schema(kVocabulary, json(schema)); });
      return error && (error->kind == ErrorKind::unsupported || error->kind == ErrorKind::bad_value);
    };
    expect(refused(nested(R"({"items":)", "{}", "}", 100)));
    expect(refused(nested(R"({"allOf":[)", "{}", "]}", 100)));
    expect(refused(nested(R"({"type":"array","minItems":1,"items":)", "true", "}", 66)));
    expect(refused(R"({"type":"string","maxLength":1000000000000})"));
    expect(refused(R"({"type":"array","minItems":1000000000000})"));
    expect(refused(R"({"type":"array","maxItems":1000000000000})"));
    std::string chain = R"({"$ref":"#/$defs/0","$defs":{)";
    for (int i = 0; i < 20000; ++i)
      chain += "\"" + std::to_string(i) + R"(":{"$ref":"#/$defs/)" + std::to_string(i + 1) + "\"},";
    expect(refused(chain + R"("20000":{"contains":{}}}})"));
    std::string alternatives = R"({"anyOf":[)";
    for (int i = 0; i < 1024; ++i) alternatives += R"({"type":"object"},)";
    expect(refused(alternatives + "{}]}"));
    std::string properties = R"({"properties":{)";
    for (int i = 0; i < 3000; ++i) properties += "\"" + std::to_string(i) + "\":true,";
    expect(refused(properties + R"("x":true}})"));
  };
};

}  // namespace
}  // namespace lapidary::test::grammar_schema_test
