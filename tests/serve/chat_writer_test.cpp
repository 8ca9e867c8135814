#include <boost/ut.hpp>

#include <cmath>

#include "serve/requests.hpp"

namespace lapidary::test::chat_writer_test {
namespace {

using namespace boost::ut;
using namespace serve;
using text::Value;

const std::string kAsked = R"({"messages":[{"role":"user","content":"hi"}]})";
Request read(const std::string& body) { return read_chat(parse_body(body), some_facts()); }

// One answer, in small steps: thought, text, a call; the log probabilities of the text.
std::string answer_with(AnswerWriter& writer, bool logprobs) {
  std::string out = writer.begin({.prompt_tokens = 9});
  out += writer.add({.index = 0, .reasoning = "Hm"});
  out += writer.add({.index = 0, .reasoning = ".", .content = "A "});
  Delta euro{.index = 0, .content = "€"};
  if (logprobs) {
    euro.logprobs.push_back({.chosen = {7, "\xe2\x82", -0.5f}, .top = {{7, "\xe2\x82", -0.5f}, {8, "b", -INFINITY}}});
    euro.logprobs.push_back({.chosen = {9, "\xac", -0.25f}, .top = {}});
  }
  out += writer.add(euro);
  out += writer.add({.index = 0});
  out += writer.add({.index = 0, .calls = {{"add", Value::Object{{"b", 1}, {"a", "x\n"}}}, {"nop", Value::Object{}}}});
  out += writer.end({.index = 0, .finish = Finish::tool_calls});
  out += writer.finish(
      {.usage = {.prompt_tokens = 9, .cached_tokens = 4, .completion_tokens = 12, .reasoning_tokens = 5, .accepted_drafts = 3, .rejected_drafts = 2},
       .seed = ~std::uint64_t{0},
       .prompt_ms = 2.5,
       .predicted_ms = 10,
       .predicted_per_second = 110});
  return out;
}

constexpr const char* kUsage =
    R"({"prompt_tokens":9,"completion_tokens":12,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":5,"accepted_prediction_tokens":3,"rejected_prediction_tokens":2}})";
constexpr const char* kEnd =
    R"("seed":-1,"timings":{"prompt_n":5,"cache_n":4,"prompt_ms":2.5,"predicted_n":12,"predicted_ms":10.0,"predicted_per_second":110.0,"draft_n":5,"draft_n_accepted":3}})";

suite<"answers of chats"> answers = [] {
  "a whole answer"_test = [] {
    expect(
        answer_with(*read(kAsked).writer, false) ==
        R"({"id":"chatcmpl-R","object":"chat.completion","created":1700000000,"model":"pebble","system_fingerprint":"fp_1","choices":[{"index":0,"message":{"role":"assistant","content":"A €","reasoning_content":"Hm.",)"
        R"("tool_calls":[{"id":"call_R","type":"function","function":{"name":"add","arguments":"{\"b\":1,\"a\":\"x\\n\"}"}},{"id":"call_R","type":"function","function":{"name":"nop","arguments":"{}"}}],"refusal":null},)"
        R"("logprobs":null,"finish_reason":"tool_calls"}],"usage":)" +
            std::string(kUsage) + "," + kEnd);
  };

  "log probabilities"_test = [] {
    const Value answer = text::parse_json(answer_with(*read(with_field(kAsked, R"("logprobs":true,"top_logprobs":2)")).writer, true), "answer");
    expect(
        text::to_json(*(*answer.find("choices")->array())[0].find("logprobs")) ==
        "{\"content\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,\"bytes\":[226,130],\"top_logprobs\":[{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.5,\"bytes\":[226,130]},"
        "{\"token\":\"b\",\"logprob\":-9999.0,\"bytes\":[98]}]},{\"token\":\"\xef\xbf\xbd\",\"logprob\":-0.25,\"bytes\":[172],\"top_logprobs\":[]}],\"refusal\":null}");
    const auto none = read(with_field(kAsked, R"("logprobs":true)"));
    none.writer->end({.index = 0});
    expect(none.writer->finish({}).find(
               R"("message":{"role":"assistant","content":"","refusal":null},"logprobs":{"content":[],"refusal":null},"finish_reason":"stop")") !=
           std::string::npos);
  };

  "a stream"_test = [] {
    const std::string head =
        R"(data: {"id":"chatcmpl-R","object":"chat.completion.chunk","created":1700000000,"model":"pebble","system_fingerprint":"fp_1","choices":[)";
    const auto delta = [&](const std::string& fields, const std::string& finish = "null") {
      return head + R"({"index":0,"delta":{)" + fields + R"(},"logprobs":null,"finish_reason":)" + finish + R"(}],"usage":null)";
    };
    expect(answer_with(*read(with_field(kAsked, R"("stream":true,"stream_options":{"include_usage":true})")).writer, false) ==
           delta(R"("role":"assistant","content":"")") + "}\n\n" + delta(R"("reasoning_content":"Hm")") + "}\n\n" +
               delta(R"("reasoning_content":".")") + "}\n\n" + delta(R"("content":"A ")") + "}\n\n" + delta(R"("content":"€")") + "}\n\n" +
               delta(R"("tool_calls":[{"index":0,"id":"call_R","type":"function","function":{"name":"add","arguments":""}}])") + "}\n\n" +
               delta(R"("tool_calls":[{"index":0,"function":{"arguments":"{\"b\":1,\"a\":\"x\\n\"}"}}])") + "}\n\n" +
               delta(R"("tool_calls":[{"index":1,"id":"call_R","type":"function","function":{"name":"nop","arguments":""}}])") + "}\n\n" +
               delta(R"("tool_calls":[{"index":1,"function":{"arguments":"{}"}}])") + "}\n\n" + delta("", "\"tool_calls\"") + "," + kEnd + "\n\n" +
               head + R"(],"usage":)" + kUsage + "}\n\ndata: [DONE]\n\n");
    expect(answer_with(*read(with_field(kAsked, R"("stream":true)")).writer, false).find("usage") == std::string::npos);
  };

  "a stream put together is the whole answer"_test = [] {
    const Value whole = text::parse_json(answer_with(*read(with_field(kAsked, R"("logprobs":true)")).writer, true), "answer");
    Value::Array calls, entries;
    std::string reasoning, content;
    Value finish, seed, usage, role;
    for (const Value& chunk :
         data_of(answer_with(*read(with_field(kAsked, R"("logprobs":true,"stream":true,"stream_options":{"include_usage":true})")).writer, true))) {
      if (chunk.find("usage")->object()) usage = *chunk.find("usage");
      if (chunk.find("choices")->array()->empty()) continue;
      const Value& choice = (*chunk.find("choices")->array())[0];
      const Value& delta = *choice.find("delta");
      if (const Value* given = delta.find("role")) role = *given;
      if (const Value* text = delta.find("reasoning_content")) reasoning += *text->string();
      if (const Value* text = delta.find("content")) content += *text->string();
      if (const Value* list = choice.find("logprobs")->find("content")) entries.insert(entries.end(), list->array()->begin(), list->array()->end());
      if (!choice.find("finish_reason")->is_null()) finish = *choice.find("finish_reason"), seed = *chunk.find("seed");
      if (const Value* part = delta.find("tool_calls")) {
        const Value& call = (*part->array())[0];
        const auto& arguments = *call.find("function")->find("arguments")->string();
        if (!call.find("id")) {
          const Value& begun = calls[static_cast<std::size_t>(*call.find("index")->integer())];
          calls[static_cast<std::size_t>(*call.find("index")->integer())] =
              Value::Object{{"id", *begun.find("id")},
                            {"type", "function"},
                            {"function", Value::Object{{"name", *begun.find("function")->find("name")}, {"arguments", arguments}}}};
        } else {
          calls.push_back(call);
        }
      }
    }
    const Value& choice = (*whole.find("choices")->array())[0];
    const Value message =
        Value::Object{{"role", role}, {"content", content}, {"reasoning_content", reasoning}, {"tool_calls", calls}, {"refusal", Value()}};
    expect(*choice.find("message") == message);
    expect(*choice.find("logprobs")->find("content") == Value(entries));
    expect(*choice.find("finish_reason") == finish && *whole.find("seed") == seed && *whole.find("usage") == usage);
  };

  "choices side by side"_test = [] {
    const auto two = read(with_field(kAsked, R"("n":2,"stream":true)"));
    expect(data_of(two.writer->begin({})).size() == 2_ul);
    const std::string text = two.writer->add({.index = 1, .content = "b"});
    expect(text.find(R"({"index":1,"delta":{"content":"b"})") != std::string::npos);
    two.writer->end({.index = 1, .finish = Finish::length});
    two.writer->end({.index = 0, .finish = Finish::stop_text});
    const auto last = data_of(two.writer->finish({.seed = 5}));
    expect(last.size() == 2_ul);
    for (std::size_t i = 0; i < last.size(); ++i) {
      const Value& choice = (*last[i].find("choices")->array())[0];
      expect(*choice.find("index") == Value(static_cast<int>(i)) && *choice.find("finish_reason") == Value(i == 0 ? "stop" : "length") &&
             *last[i].find("seed") == Value(5));
    }
    const auto whole = read(with_field(kAsked, R"("n":2)"));
    whole.writer->add({.index = 1, .calls = {{"f", Value::Object{}}}});
    whole.writer->end({.index = 0});
    whole.writer->end({.index = 1, .finish = Finish::tool_calls});
    const std::string body = whole.writer->finish({});
    expect(body.find(R"("content":null,"tool_calls":)") != std::string::npos && body.find(R"("content":"","refusal":null)") != std::string::npos);
  };

  "a stream that fails says so and is not done"_test = [] {
    const auto request = read(with_field(kAsked, R"("stream":true)"));
    request.writer->begin({});
    expect(request.writer->fail({.status = 503, .code = "draining", .message = "[server] going down"}) ==
           "data: {\"error\":{\"message\":\"[server] going down\",\"type\":\"overloaded_error\",\"param\":null,\"code\":\"draining\"}}\n\n");
  };
};

}  // namespace
}  // namespace lapidary::test::chat_writer_test
