#include <boost/ut.hpp>

#include <cmath>

#include "serve/requests.hpp"

namespace lapidary::test::completions_api_test {
namespace {

using namespace boost::ut;
using namespace serve;
using text::Value;

Request read(const std::string& body) { return read_completion(parse_body(body), some_facts()); }
const std::string kAsked = R"({"prompt":"Once"})";
std::string verdict(const std::string& field) {
  return verdict_of([&] { read(with_field(kAsked, field)); });
}
std::string prompt_verdict(const std::string& prompt) {
  return verdict_of([&] { read(R"({"prompt":)" + prompt + "}"); });
}
std::vector<PlainPrompt> prompts_of(const std::string& fields) { return std::get<std::vector<PlainPrompt>>(read("{" + fields + "}").job.prompt); }

using Ids = std::vector<std::int32_t>;

std::string answer_with(AnswerWriter& writer, bool logprobs) {
  std::string out = writer.begin({});
  Delta first{.index = 0, .content = "a€"};
  if (logprobs) {
    first.logprobs.push_back({.chosen = {1, "a\xe2", -1.0f}, .top = {{2, "b", -0.5f}, {3, "c", -INFINITY}}});
    first.logprobs.push_back({.chosen = {4, "\x82\xac", -2.0f}, .top = {{4, "\x82\xac", -2.0f}}});
  }
  out += writer.add(first);
  Delta second{.index = 0, .content = "!"};
  if (logprobs) second.logprobs.push_back({.chosen = {5, "!", -0.125f}, .top = {}});
  out += writer.add(second);
  out += writer.end({.index = 0, .finish = Finish::length});
  out += writer.finish({.usage = {.prompt_tokens = 2, .completion_tokens = 3}, .seed = 7});
  return out;
}

constexpr const char* kUsage =
    R"("usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}})";
constexpr const char* kEnd =
    R"("seed":7,"timings":{"prompt_n":2,"cache_n":0,"prompt_ms":0.0,"predicted_n":3,"predicted_ms":0.0,"predicted_per_second":0.0,"draft_n":0,"draft_n_accepted":0}})";
const std::string kHead =
    R"({"id":"cmpl-R","object":"text_completion","created":1700000000,"model":"pebble","system_fingerprint":"fp_1","choices":[)";

suite<"completions"> completions = [] {
  "prompts of every kind"_test = [] {
    expect(std::get<std::string>(prompts_of(R"("prompt":"Once")")[0].content) == "Once" && !prompts_of(R"("prompt":"Once")")[0].parse_special);
    expect(prompts_of(R"("prompt":"Once","parse_special":true)")[0].parse_special);
    expect(std::get<std::string>(prompts_of(R"("prompt":["a","b"])")[1].content) == "b");
    expect(std::get<Ids>(prompts_of(R"("prompt":[0,999])")[0].content) == Ids{0, 999});
    const auto lists = prompts_of(R"("prompt":[[1],[2,3]])");
    expect(lists.size() == 2_ul && std::get<Ids>(lists[1].content) == Ids{2, 3});
  };

  "prompts that are wrong"_test = [] {
    for (const auto& [prompt, expected] : std::vector<std::pair<std::string, std::string>>{{"null", "prompt invalid_value"},
                                                                                           {"\"\"", "prompt invalid_value"},
                                                                                           {"[]", "prompt invalid_value"},
                                                                                           {"1", "prompt invalid_value"},
                                                                                           {"true", "prompt invalid_value"},
                                                                                           {"{}", "prompt invalid_value"},
                                                                                           {"[\"a\",\"\"]", "prompt[1] invalid_value"},
                                                                                           {"[[]]", "prompt[0] invalid_value"},
                                                                                           {"[[1],[]]", "prompt[1] invalid_value"},
                                                                                           {"[1000]", "prompt[0] invalid_value"},
                                                                                           {"[1,-1]", "prompt[1] invalid_value"},
                                                                                           {"[1,1.5]", "prompt[1] invalid_value"},
                                                                                           {"[1.5]", "prompt[0] invalid_value"},
                                                                                           {"[1,\"a\"]", "prompt[1] invalid_value"},
                                                                                           {"[\"a\",1]", "prompt[1] invalid_value"},
                                                                                           {"[\"a\",[1]]", "prompt[1] invalid_value"},
                                                                                           {"[[1],\"a\"]", "prompt[1] invalid_value"},
                                                                                           {"[[1],[2,true]]", "prompt[1][1] invalid_value"},
                                                                                           {"[[[1]]]", "prompt[0][0] invalid_value"},
                                                                                           {"[null]", "prompt[0] invalid_value"},
                                                                                           {"[true]", "prompt[0] invalid_value"}})
      expect(prompt_verdict(prompt) == expected) << prompt << prompt_verdict(prompt);
    expect(verdict_of([] { read("{}"); }) == "prompt invalid_value");
    std::string many = "\"x\"";
    for (int i = 1; i < 16; ++i) many += ",\"x\"";
    expect(prompt_verdict("[" + many + "]") == "ok" && prompt_verdict("[" + many + ",\"x\"]") == "prompt invalid_value");
  };

  "fields of all kinds"_test = [] {
    const Job plain = read(kAsked).job;
    expect(plain.options.max_tokens == 16 && plain.options.logprobs == -1 && plain.choices == 1);
    const Job job =
        read(
            with_field(kAsked,
                       R"("max_tokens":3,"logprobs":0,"n":2,"seed":4,"temperature":0,"top_k":1,"stop":["x"],"cache_salt":"s","echo":false,"best_of":1,
                         "prediction":{"type":"content","content":"p"},"model":"small","user":"u","logit_bias":{"1":2})"))
            .job;
    expect(job.options.max_tokens == 3 && job.options.logprobs == 0 && job.choices == 2 && job.options.sampling.seed == 4u &&
           job.options.sampling.temperature == 0.0f);
    expect(job.options.stops.size() == 1_ul && job.cache_salt == "s" && job.prediction == "p" && job.options.sampling.bias.size() == 1_ul);
    expect(read(with_field(kAsked, R"("stream":true,"stream_options":{"include_usage":true})")).streams);
    const auto check_null = [](const char* name) { expect(verdict("\"" + std::string(name) + "\":null") == "ok") << name; };
    std::ranges::for_each(kOpenAiFields, check_null);
    for (const char* name : {"parse_special", "echo", "suffix", "best_of", "messages"}) check_null(name);
    for (const auto& [field, name] : std::vector<std::pair<std::string, std::string>>{{R"("echo":true)", "echo"},
                                                                                      {R"("suffix":"x")", "suffix"},
                                                                                      {R"("suffix":"")", "suffix"},
                                                                                      {R"("best_of":2)", "best_of"},
                                                                                      {R"("messages":[])", "messages"},
                                                                                      {R"("tools":[])", "tools"},
                                                                                      {R"("tool_choice":"none")", "tool_choice"},
                                                                                      {R"("parallel_tool_calls":true)", "parallel_tool_calls"},
                                                                                      {R"("response_format":{"type":"text"})", "response_format"},
                                                                                      {R"("reasoning_effort":"none")", "reasoning_effort"},
                                                                                      {R"("chat_template_kwargs":{})", "chat_template_kwargs"},
                                                                                      {R"("continue_final_message":false)", "continue_final_message"},
                                                                                      {R"("thinking_budget_tokens":1)", "thinking_budget_tokens"},
                                                                                      {R"("functions":[])", "functions"},
                                                                                      {R"("store":true)", "store"},
                                                                                      {R"("top_logprobs":1)", "top_logprobs"},
                                                                                      {R"("max_completion_tokens":1)", "max_completion_tokens"}})
      expect(verdict(field) == name + " unsupported_parameter") << field << verdict(field);
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{{"echo", "0"},
                                                                                      {"best_of", "\"1\""},
                                                                                      {"best_of", "1.0"},
                                                                                      {"logprobs", "21"},
                                                                                      {"logprobs", "true"},
                                                                                      {"logprobs", "-1"},
                                                                                      {"max_tokens", "0"},
                                                                                      {"n", "9"},
                                                                                      {"parse_special", "1"},
                                                                                      {"stream", "1"},
                                                                                      {"stream_options", "{}"},
                                                                                      {"temperature", "3"},
                                                                                      {"prediction", "1"}})
      expect(verdict("\"" + name + "\":" + value) == name + " invalid_value") << name << value;
    expect(verdict(R"("grammar":"x")") == "grammar unknown_parameter");
    expect(verdict(R"("model":"other")") == "model model_not_found");
  };

  "a whole answer"_test = [] {
    expect(answer_with(*read(kAsked).writer, false) ==
           kHead + R"({"index":0,"text":"a€!","logprobs":null,"finish_reason":"length"}],)" + std::string(kUsage) + "," + kEnd);
  };

  "log probabilities in the old shape"_test = [] {
    const Value answer = text::parse_json(answer_with(*read(with_field(kAsked, R"("logprobs":2)")).writer, true), "answer");
    expect(
        text::to_json(*(*answer.find("choices")->array())[0].find("logprobs")) ==
        "{\"tokens\":[\"a\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\",\"!\"],\"token_logprobs\":[-1.0,-2.0,-0.125],\"top_logprobs\":[{\"a\xef\xbf\xbd\":-1.0,\"b\":-0.5,\"c\":-9999.0},"
        "{\"\xef\xbf\xbd\xef\xbf\xbd\":-2.0},{\"!\":-0.125}],\"text_offset\":[0,1,2]}");
  };

  "a stream"_test = [] {
    expect(
        answer_with(*read(with_field(kAsked, R"("stream":true,"logprobs":0,"stream_options":{"include_usage":true})")).writer, true) ==
        "data: " + kHead +
            "{\"index\":0,\"text\":\"a€\",\"logprobs\":{\"tokens\":[\"a\xef\xbf\xbd\",\"\xef\xbf\xbd\xef\xbf\xbd\"],\"token_logprobs\":[-1.0,-2.0],"
            "\"top_logprobs\":[{\"a\xef\xbf\xbd\":-1.0,\"b\":-0.5,\"c\":-9999.0},{\"\xef\xbf\xbd\xef\xbf\xbd\":-2.0}],\"text_offset\":[0,1]},\"finish_reason\":null}],\"usage\":null}\n\ndata: " +
            kHead +
            R"({"index":0,"text":"!","logprobs":{"tokens":["!"],"token_logprobs":[-0.125],"top_logprobs":[{"!":-0.125}],"text_offset":[2]},"finish_reason":null}],"usage":null})" +
            "\n\ndata: " + kHead + R"({"index":0,"text":"","logprobs":null,"finish_reason":"length"}],"usage":null,)" + kEnd + "\n\ndata: " + kHead +
            "]," + kUsage + "}\n\ndata: [DONE]\n\n");
  };

  "choices of several prompts"_test = [] {
    const auto request = read(R"({"prompt":["a","b"],"n":2})");
    for (int i = 0; i < 4; ++i) {
      request.writer->add({.index = i, .content = std::to_string(i)});
      request.writer->end({.index = i});
    }
    const Value answer = text::parse_json(request.writer->finish({}), "answer");
    expect(answer.find("choices")->array()->size() == 4_ul && *answer.find("choices")->array()->back().find("text") == Value("3"));
  };
};

}  // namespace
}  // namespace lapidary::test::completions_api_test
