#include <boost/ut.hpp>

#include <cmath>
#include <limits>
#include <locale>

#include "support/cases.hpp"
#include "support/random.hpp"
#include "text/value.hpp"
#include "text/whitespace.hpp"

namespace lapidary::test::value_test {

namespace {

using namespace boost::ut;
using text::number_text;
using text::parse_json;
using text::read_number;
using text::to_json;
using text::Value;

Value random_value(Random& random, int depth) {
  switch (random.below(depth > 0 ? 8 : 6)) {
    case 0: return Value();
    case 1: return Value(random.chance(2));
    case 2: return Value(static_cast<std::int64_t>(random.bits()));
    case 3: return Value(random.uniform(-1e3, 1e3));
    case 4: return Value(std::ldexp(random.uniform(-1, 1), random.below(2000) - 1000));
    case 5: {
      std::string text;
      for (int i = random.below(12); i > 0; --i) text += static_cast<char>(random.below(128));
      return Value(text + (random.chance(2) ? "é\u2028🦙" : ""));
    }
    case 6: {
      Value::Array array;
      for (int i = random.below(5); i > 0; --i) array.push_back(random_value(random, depth - 1));
      return Value(array);
    }
    default: {
      Value::Object object;
      for (int i = random.below(5); i > 0; --i)
        object.emplace_back("key " + std::to_string(i) + "\"\n", random_value(random, depth - 1));
      return Value(object);
    }
  }
}

const suite<"value"> value_suite = [] {
  boost::ut::test("JSON keeps kinds and order") = [] {
    const Value value = parse_json(R"({"b": [1, -2.5, 2.0, true, null, "x"], "a": {},
                                       "big": 18446744073709551615})", "test");
    const auto& list = *value.find("b")->array();
    expect(list[0] == Value(1) && list[1] == Value(-2.5) && list[2] == Value(2.0) && !list[2].integer());
    expect(list[3] == Value(true) && list[4].is_null() && list[5] == Value("x"));
    expect(value.object()->front().first == "b");
    expect(*value.find("big")->real() == 18446744073709551615.0);
    expect(value.find("c") == nullptr && list[0].find("c") == nullptr);
  };

  boost::ut::test("the last of two equal keys counts, at the place of the first") = [] {
    expect(to_json(parse_json(R"({"a": 1, "b": 2, "a": 3})", "test")) == R"({"a":3,"b":2})");
  };

  boost::ut::test("what is no JSON is an error that names the text") = [] {
    for (const char* bad : {"", "{", "[1,]", "{\"a\" 1}", "nul", "\"\xff\"", "1 2", "NaN"}) {
      const auto error = error_of([&] { parse_json(bad, "the request"); });
      expect(error && error->kind == ErrorKind::not_json && error->where == "the request") << bad;
    }
  };

  boost::ut::test("nesting has a limit") = [] {
    const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    expect(outcome_of([&] { parse_json(nested(200), "test"); }) == "ok");
    expect(outcome_of([&] { parse_json(nested(300), "test"); }) == "not_json");
    expect(outcome_of([&] { parse_json(nested(1 << 20), "test"); }) == "not_json");
  };

  boost::ut::test("values survive being written and read") = [] {
    Random random(1);
    for (int i = 0; i < 2000; ++i) {
      const Value value = random_value(random, 4);
      const std::string json = to_json(value);
      expect(parse_json(json, "test") == value) << json;
    }
  };

  boost::ut::test("JSON text escapes what it must and nothing else") = [] {
    expect(to_json(Value("a\"\\\n\r\t\x01/é🦙\x7f")) == "\"a\\\"\\\\\\n\\r\\t\\u0001/é🦙\x7f\"");
    expect(to_json(Value(std::numeric_limits<double>::infinity())) == "null");
  };

  boost::ut::test("doubles print as in Python") = [] {
    const std::pair<double, const char*> cases[] = {
        {0.0, "0.0"},       {-0.0, "-0.0"},     {2.0, "2.0"},           {1.5, "1.5"},
        {0.1, "0.1"},       {1e-4, "0.0001"},   {1.5e-5, "1.5e-05"},    {1e-7, "1e-07"},
        {1e15, "1000000000000000.0"},           {1e16, "1e+16"},        {9007199254740993.0, "9007199254740992.0"},
        {1e20, "1e+20"},    {1e100, "1e+100"},  {123.456, "123.456"},   {-1.25e-300, "-1.25e-300"},
        {5e-324, "5e-324"}, {1234567890123456.0, "1234567890123456.0"}, {0.30000000000000004, "0.30000000000000004"}};
    for (const auto& [number, text] : cases) expect(number_text(number) == text) << number_text(number) << text;
  };

  boost::ut::test("a number is read back as it was, whatever the locale") = [] {
    struct Comma final : std::numpunct<char> {
      char do_decimal_point() const override { return ','; }
      char do_thousands_sep() const override { return '.'; }
      std::string do_grouping() const override { return "\3"; }
    };
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
      const double number = std::ldexp(random.uniform(-1, 1), random.below(2000) - 1000);
      expect(read_number(number_text(number)) == number) << number_text(number);
    }
    for (const auto& [text, number] : {std::pair{"0", 0.0}, {"-0.5e2", -50.0}, {"1.", 1.0}, {".5", 0.5}, {"1e-400", 0.0},
                                       {"123456789012345678901234567890", 1.2345678901234568e29}})
      expect(read_number(text) == number) << text;
    for (const char* text : {"", "-", "+1", " 1", "1 ", "1,5", "1.5.2", "1e", "e1", "1e999", "-1e999", "inf", "nan", "0x10", "1-"})
      expect(!read_number(text)) << text;
    std::locale::global(before);
  };

  boost::ut::test("truth is as in Python") = [] {
    for (const Value& empty :
         {Value(), Value(false), Value(0), Value(0.0), Value(""), Value(Value::Array()), Value(Value::Object())})
      expect(!empty.truthy()) << to_json(empty);
    for (const Value& full : {Value(true), Value(-1), Value(0.5), Value(" "), Value(Value::Array{Value()}),
                              Value(Value::Object{{"", Value()}})})
      expect(full.truthy()) << to_json(full);
  };

  boost::ut::test("white space is what Python strips") = [] {
    for (const char* space : {"\t", "\n", "\v", "\f", "\r", "\x1c", "\x1f", " ", "\u0085", "\u00a0", "\u1680",
                              "\u2000", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
      const std::string padded = std::string(space) + space + "a" + space + "b" + space + "\n";
      expect(text::strip(padded) == std::string("a") + space + "b") << to_json(Value(space));
    }
    for (const char* other : {"\x1b", "\u200b", "\u180e", "\u2060", "\ufeff", "\u00ad", "é"})
      expect(text::strip(other) == other) << to_json(Value(other));
    expect(text::strip("").empty() && text::strip(" \n\u3000").empty());
  };
};

}  // namespace

}  // namespace lapidary::test::value_test
