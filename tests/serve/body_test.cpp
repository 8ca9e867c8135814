#include <boost/ut.hpp>

#include "serve/body.hpp"
#include "serve/requests.hpp"

namespace lapidary::test::body_test {
namespace {

using namespace boost::ut;
using serve::parse_body;

std::string nested(int levels) {
  return "{\"a\":" + std::string(static_cast<std::size_t>(levels) - 1, '[') + std::string(static_cast<std::size_t>(levels) - 1, ']') + "}";
}

suite<"bodies"> bodies = [] {
  "are one object"_test = [] {
    expect(*parse_body(R"({"a": 1, "b": "\ud83e\udd99", "a": [2.5]})").find("a") == text::Value(text::Value::Array{2.5}));
    expect(*parse_body(R"({"b": "\ud83e\udd99"})").find("b")->string() == "🦙");
    expect(parse_body("{}").object()->empty());
  };

  "are nothing else"_test = [] {
    for (const std::string& bad : {std::string(""),
                                   std::string("["),
                                   std::string("[]"),
                                   std::string("null"),
                                   std::string("1"),
                                   std::string("{} {}"),
                                   std::string("{} x"),
                                   std::string("{\"a\":}"),
                                   std::string("{\"a\":\"\xff\"}"),
                                   std::string("{\"\xc3\":1}"),
                                   std::string("{\"a\":\"\xed\xa0\x80\"}"),
                                   std::string(R"({"a":"\ud800"})"),
                                   std::string(R"({"a":"\udc00"})"),
                                   std::string(R"({"a":["\ude00x"]})"),
                                   std::string(R"({"\udc00":1})"),
                                   std::string(R"({"a":"\ud83ex"})"),
                                   std::string(R"({"a":"\ud83e\u0041"})"),
                                   std::string("{\"a\":1e999}"),
                                   std::string("{\"a\":-1e999}"),
                                   std::string("{\"a\":NaN}"),
                                   std::string("{\"a\":Infinity}"),
                                   std::string("{'a':1}"),
                                   std::string("{\"a\":01}"),
                                   std::string("{\"a\":1,}"),
                                   nested(65),
                                   nested(300),
                                   nested(5000)}) {
      const auto refusal = refusal_from([&] { parse_body(bad); });
      expect(refusal && refusal->status == 400 && refusal->code.empty() && refusal->param.empty()) << bad;
      expect(refusal && refusal->message.starts_with("[body] ") && refusal->message.size() < 300) << bad;
    }
  };

  "have up to 64 levels"_test = [] { expect(verdict_of([] { parse_body(nested(64)); }) == "ok"); };

  "inside texts are named by their place"_test = [] {
    expect(verdict_of([] { serve::parse_object("[1]", "messages[0].x"); }) == "messages[0].x invalid_value");
    expect(verdict_of([] { serve::parse_object(R"({"a":1})", "messages[0].x"); }) == "ok");
  };
};

}  // namespace
}  // namespace lapidary::test::body_test
