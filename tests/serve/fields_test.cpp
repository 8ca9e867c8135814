#include <boost/ut.hpp>

#include <limits>

#include "serve/fields.hpp"
#include "serve/requests.hpp"
#include "serve/shared_fields.hpp"
#include "text/schema.hpp"

namespace lapidary::test::fields_test {
namespace {

using namespace boost::ut;
using namespace serve;
using text::Value;

Value value_of(const std::string& json) { return text::parse_json(json, "test"); }

suite<"fields"> fields_suite = [] {
  "are there, absent or null"_test = [] {
    const Value object = value_of(R"({"a": 1, "b": null, "c": [], "d": {}})");
    Fields fields(object);
    expect(fields.find("a") && !fields.find("b") && fields.find("c") && fields.find("d") && !fields.find("e"));
    Fields inside(object, "messages[0]", Absent::null_or_empty);
    expect(inside.find("a") && !inside.find("b") && !inside.find("c") && !inside.find("d"));
  };

  "nobody has asked for are unknown, unless they are absent"_test = [] {
    const Value object = value_of(R"({"a": 1, "b": null, "c": []})");
    Fields fields(object);
    expect(verdict_of([&] { fields.finish(); }) == "a unknown_parameter");
    fields.find("a");
    expect(verdict_of([&] { fields.finish(); }) == "c unknown_parameter");
    Fields inside(object, "messages[0]", Absent::null_or_empty);
    inside.find("a");
    expect(verdict_of([&] { inside.finish(); }) == "ok");
  };

  "have kinds and ranges"_test = [] {
    const Value object =
        value_of(R"({"yes": true, "one": 1, "whole": 1.0, "half": 0.5, "text": "x", "list": [1], "object": {"a": 1}, "huge": 18446744073709551615})");
    const auto verdict = [&](auto read) {
      return verdict_of([&] {
        Fields fields(object);
        read(fields);
      });
    };
    expect(verdict([](Fields& f) {
             expect(*f.boolean("yes") && *f.integer("one", 1, 1) == 1 && *f.number("one", 0, 1) == 1.0 && *f.number("half", 0.5, 0.5) == 0.5);
           }) == "ok");
    expect(verdict([](Fields& f) { f.boolean("one"); }) == "one invalid_value");
    expect(verdict([](Fields& f) { f.boolean("text"); }) == "text invalid_value");
    for (const char* name : {"yes", "whole", "half", "text", "list", "object", "huge"})
      expect(verdict([&](Fields& f) { f.integer(name, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()); }) ==
             std::string(name) + " invalid_value");
    expect(verdict([](Fields& f) { f.integer("one", 2, 3); }) == "one invalid_value");
    expect(verdict([](Fields& f) { f.integer("one", -1, 0); }) == "one invalid_value");
    for (const char* name : {"yes", "text", "list", "object"})
      expect(verdict([&](Fields& f) { f.number(name, -1e30, 1e30); }) == std::string(name) + " invalid_value");
    expect(verdict([](Fields& f) { f.number("half", 0.6, 1); }) == "half invalid_value");
    expect(verdict([](Fields& f) { f.number("half", 0, 0.4); }) == "half invalid_value");
    expect(verdict([](Fields& f) { f.text("one"); }) == "one invalid_value");
    expect(verdict([](Fields& f) { f.list("object"); }) == "object invalid_value");
    expect(verdict([](Fields& f) { f.object("list"); }) == "list invalid_value");
    expect(verdict([](Fields& f) { f.one_of("text", {"y", "z"}); }) == "text invalid_value");
    expect(verdict([](Fields& f) { f.need("none", "a text"); }) == "none invalid_value");
    expect(verdict([](Fields& f) {
             f.refused("text", "no");
             f.refused("none", "no");
           }) == "text unsupported_parameter");
    expect(verdict([](Fields& f) {
             f.without_effect("text", {"x", "y"});
             f.without_effect("none", {1});
           }) == "ok");
    expect(verdict([](Fields& f) { f.without_effect("text", {"y"}); }) == "text unsupported_parameter");
    expect(verdict([](Fields& f) { f.without_effect("text", {1}); }) == "text invalid_value");
    expect(verdict_of([&] { Fields fields(Value(1), "a.b"); }) == "a.b invalid_value");
  };

  "are named in messages that stay short"_test = [] {
    std::string long_text;
    for (int i = 0; i < 50; ++i) long_text += "ä";
    const Value object = Value::Object{{"temperature", 3}, {"text", long_text}, {long_text, 1}};
    Fields fields(object, "a[2]");
    expect(refusal_from([&] { fields.number("temperature", 0, 2); })->message == "[a[2].temperature] expected a number from 0 to 2, got 3");
    expect(refusal_from([&] {
             fields.one_of("text", {"x", "y", "z"});
           })->message == "[a[2].text] expected \"x\", \"y\" or \"z\", got \"" + long_text.substr(0, 80) + "...\"");
    expect(refusal_from([&] { fields.finish(); })->param == "a[2]." + long_text.substr(0, 80) + "...");
  };
};

suite<"tools"> tools_suite = [] {
  using Calls = engine::AnswerOptions::Calls;
  using Kind = ToolChoice::Kind;
  const Value schema = value_of(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})");
  const auto tools_of = [&](std::initializer_list<bool> strict) {
    Tools tools;
    for (const bool one : strict) tools.add({.name = "f" + std::to_string(tools.all().size()), .parameters = schema, .strict = one}, "tools");
    return tools;
  };
  const auto applied = [](const Tools& tools, const ToolChoice& choice) {
    engine::AnswerOptions options;
    apply_tools(tools, choice, options);
    return options;
  };

  "are free unless one is strict"_test = [&] {
    expect(!applied(tools_of({false, false}), {}).strict_tools);
    expect(*applied(tools_of({true, true}), {}).strict_tools == tools_of({true, true}).declared());
    // Beside a strict one the others take any arguments, and the grammar can say so.
    const Value mixed = *applied(tools_of({true, false}), {}).strict_tools;
    expect(*(*mixed.array())[0].find("function")->find("parameters") == schema);
    expect(*(*mixed.array())[1].find("function")->find("parameters") == value_of(R"({"type":"object"})"));
    text::compile_calls(mixed);
  };

  "are chosen"_test = [&] {
    const Tools two = tools_of({false, false});
    expect(applied(two, {.kind = Kind::none}).calls == Calls::none && !applied(tools_of({true}), {.kind = Kind::none}).strict_tools);
    const auto required = applied(two, {.kind = Kind::required});
    expect(required.calls == Calls::required && !required.single_call && *required.strict_tools == two.declared());
    const auto named = applied(two, {.kind = Kind::named, .name = "f1"});
    expect(named.calls == Calls::required && named.single_call && named.strict_tools->array()->size() == 1_ul);
    expect(applied(two, {.parallel = false}).single_call && !applied(two, {}).single_call);
    expect(verdict_of([&] { applied(two, {.kind = Kind::named, .name = "f2", .path = "p"}); }) == "p invalid_value");
    expect(verdict_of([&] { applied({}, {.kind = Kind::required, .path = "p"}); }) == "p invalid_value");
    expect(verdict_of([&] { applied({}, {.kind = Kind::none}); }) == "ok");
  };

  "have names of their own, and are 128 at most"_test = [&] {
    Tools tools;
    for (int i = 0; i < 128; ++i) tools.add({.name = "f" + std::to_string(i)}, "p");
    expect(verdict_of([&] { tools.add({.name = "g"}, "p"); }) == "p invalid_value");
    Tools twice;
    twice.add({.name = "f"}, "p");
    expect(verdict_of([&] { twice.add({.name = "f"}, "p"); }) == "p invalid_value");
  };
};

}  // namespace
}  // namespace lapidary::test::fields_test
