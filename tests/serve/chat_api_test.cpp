#include <boost/ut.hpp>

#include "serve/requests.hpp"
#include "text/chat.hpp"

namespace lapidary::test::chat_api_test {
namespace {

using namespace boost::ut;
using namespace serve;
using text::Value;
using Calls = engine::AnswerOptions::Calls;

const std::string kAsked = R"({"messages":[{"role":"user","content":"hi"}]})";
const std::string kTool =
    R"({"type":"function","function":{"name":"add","description":"Adds","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}})";

Request read(const std::string& body, const Facts& facts = some_facts()) { return read_chat(parse_body(body), facts); }
Job job_with(const std::string& field) { return read(with_field(kAsked, field)).job; }
std::string verdict(const std::string& field) {
  return verdict_of([&] { read(with_field(kAsked, field)); });
}
std::string messages_verdict(const std::string& messages, const std::string& field = "") {
  return verdict_of([&] { read(with_field(R"({"messages":)" + messages + "}", field)); });
}

std::string prompt_of(const std::string& body) {
  const Job job = read(body).job;
  const auto& prompt = std::get<ChatPrompt>(job.prompt);
  return text::joined(text::render(text::checked_messages(prompt.messages), prompt.tools, {},
                                   {.enable_thinking = prompt.think, .preserve_thinking = prompt.preserve_thinking}));
}

suite<"chat completions"> chat = [] {
  "fields that are honoured"_test = [] {
    const Job plain = job_with("");
    expect(plain.choices == 1 && plain.options.max_tokens == 0 && plain.options.logprobs == -1 && !plain.options.sampling.seed &&
           plain.options.calls == Calls::automatic);
    expect(!std::get<ChatPrompt>(plain.prompt).think && std::get<ChatPrompt>(plain.prompt).tools.is_null());

    const auto sampling =
        job_with(R"("temperature":0.5,"top_p":1,"top_k":0,"min_p":0.25,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":0.01)")
            .options.sampling;
    expect(sampling.temperature == 0.5f && sampling.top_p == 1.0f && sampling.top_k == 0 && sampling.min_p == 0.25f);
    expect(sampling.presence == -2.0f && sampling.frequency == 2.0f && sampling.repetition == 0.01f);
    expect(job_with(R"("seed":-1)").options.sampling.seed == ~std::uint64_t{0});
    expect(job_with(R"("seed":-9223372036854775808)").options.sampling.seed == std::uint64_t{1} << 63);
    const auto bias = job_with(R"("logit_bias":{"0":-100,"999":1.5,"3":null})").options.sampling.bias;
    expect(bias == std::vector<std::pair<std::int32_t, float>>{{0, -100.0f}, {999, 1.5f}});

    expect(job_with(R"("stop":"x")").options.stops == std::vector<std::string>{"x"});
    expect(job_with(R"("stop":["x","y"])").options.stops == std::vector<std::string>{"x", "y"});
    expect(job_with(R"("max_tokens":5)").options.max_tokens == 5 && job_with(R"("max_completion_tokens":6,"max_tokens":6)").options.max_tokens == 6);
    expect(job_with(R"("max_tokens":9000000000000)").options.max_tokens == INT32_MAX);
    expect(job_with(R"("n":8)").choices == 8);
    expect(job_with(R"("logprobs":true)").options.logprobs == 0 && job_with(R"("logprobs":true,"top_logprobs":20)").options.logprobs == 20);
    expect(job_with(R"("logprobs":false)").options.logprobs == -1);
    expect(job_with(R"("thinking_budget_tokens":7)").options.thinking_budget_tokens == 7);
    expect(job_with(R"("cache_salt":"s")").cache_salt == "s");
    expect(job_with(R"("prediction":{"type":"content","content":"abc"})").prediction == "abc");
    expect(job_with(R"("prediction":{"type":"content","content":[{"type":"text","text":"ab"},{"type":"text","text":"c"}]})").prediction == "abc");
    expect(read(with_field(kAsked, R"("stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false})")).streams);
    expect(!read(with_field(kAsked, R"("stream":false)")).streams);
    for (const char* name : {"pebble", "small"}) expect(verdict(R"("model":")" + std::string(name) + "\"") == "ok");
  };

  "formats"_test = [] {
    expect(!job_with(R"("response_format":{"type":"text"})").options.schema);
    expect(*job_with(R"("response_format":{"type":"json_object"})").options.schema == Value(Value::Object{{"type", "object"}}));
    expect(
        *job_with(R"("response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","strict":false,"schema":{"type":"array"}}})")
             .options.schema == Value(Value::Object{{"type", "array"}}));
    expect(verdict(R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})") == "response_format.json_schema.schema invalid_value");
    expect(verdict(R"("response_format":{"type":"json_schema","json_schema":{"schema":true}})") ==
           "response_format.json_schema.schema invalid_value");
    expect(verdict(R"("response_format":{"type":"json_schema"})") == "response_format.json_schema invalid_value");
    expect(verdict(R"("response_format":{"type":"grammar"})") == "response_format.type invalid_value");
    expect(verdict(R"("response_format":{})") == "response_format.type invalid_value");
    expect(verdict(R"("response_format":{"type":"text","x":1})") == "response_format.x unknown_parameter");
    expect(verdict(R"("response_format":{"type":"json_object"},"tools":[])") == "ok");
  };

  "formats beside tools"_test = [] {
    const auto held = [](const std::string& fields) {
      const auto options = job_with(R"("response_format":{"type":"json_object"},)" + fields).options;
      return std::string(options.schema ? "format " : "") + (options.strict_tools ? text::to_json(*options.strict_tools) : "");
    };
    const std::string tools = R"("tools":[)" + kTool + "]";
    expect(held(tools) == R"(format [{"type":"function","function":{"name":"add","description":"Adds","parameters":{"type":"object"}}}])") << held(tools);
    const std::string strict = R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{}}}}])";
    expect(held(strict) == R"(format [{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}])") << held(strict);
    expect(held(tools + R"(,"tool_choice":"none")") == "format ") << "no call can begin";
    expect(held(tools + R"(,"tool_choice":"required")").find(R"("a":{"type":"integer"})") != std::string::npos);
    expect(held(R"("tools":[])") == "format ");
    expect(!job_with(R"("response_format":{"type":"text"},)" + tools).options.strict_tools) << "written freely";
  };

  "thinking"_test = [] {
    const auto thinks = [](const std::string& field, bool by_default) {
      Facts facts = some_facts();
      facts.thinks = by_default;
      return std::get<ChatPrompt>(read(with_field(kAsked, field), facts).job.prompt).think;
    };
    expect(!thinks("", false) && thinks("", true));
    expect(!thinks(R"("reasoning_effort":"none")", true));
    for (const char* effort : {"minimal", "low", "medium", "high", "xhigh", "max"})
      expect(thinks(R"("reasoning_effort":")" + std::string(effort) + "\"", false));
    expect(thinks(R"("chat_template_kwargs":{"enable_thinking":true})", false) &&
           !thinks(R"("chat_template_kwargs":{"enable_thinking":false})", true));
    expect(thinks(R"("chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"low")", false));
    expect(std::get<ChatPrompt>(job_with(R"("chat_template_kwargs":{"preserve_thinking":true})").prompt).preserve_thinking);
    expect(verdict(R"("chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low")") == "reasoning_effort invalid_value");
    expect(verdict(R"("chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"none")") == "reasoning_effort invalid_value");
    expect(verdict(R"("chat_template_kwargs":{"other":true})") == "chat_template_kwargs.other unknown_parameter");
    expect(verdict(R"("chat_template_kwargs":{"enable_thinking":1})") == "chat_template_kwargs.enable_thinking invalid_value");
    expect(verdict(R"("chat_template_kwargs":{"preserve_thinking":"yes"})") == "chat_template_kwargs.preserve_thinking invalid_value");
  };

  "tools and their choice"_test = [] {
    const std::string tools = R"("tools":[)" + kTool + "]";
    expect(std::get<ChatPrompt>(job_with(tools).prompt).tools.array()->size() == 1_ul);
    expect(job_with(tools + R"(,"tool_choice":"auto")").options.calls == Calls::automatic);
    expect(job_with(tools + R"(,"tool_choice":"none")").options.calls == Calls::none);
    expect(job_with(tools + R"(,"tool_choice":"required")").options.calls == Calls::required);
    expect(job_with(tools + R"(,"parallel_tool_calls":false)").options.single_call);
    expect(job_with(tools + R"(,"tool_choice":{"type":"function","function":{"name":"add"}})").options.single_call);
    expect(verdict(R"("tools":[],"tool_choice":"none")") == "ok");
    for (const auto& [field, expected] : std::vector<std::pair<std::string, std::string>>{
             {tools + R"(,"tool_choice":{"type":"function","function":{"name":"sub"}})", "tool_choice.function.name invalid_value"},
             {tools + R"(,"tool_choice":{"type":"custom","custom":{"name":"sub"}})", "tool_choice.type invalid_value"},
             {tools + R"(,"tool_choice":{"type":"function","function":{}})", "tool_choice.function.name invalid_value"},
             {tools + R"(,"tool_choice":{"type":"function","function":{"name":"add"},"x":1})", "tool_choice.x unknown_parameter"},
             {tools + R"(,"tool_choice":"any")", "tool_choice invalid_value"},
             {R"("tool_choice":"required")", "tool_choice invalid_value"},
             {R"("tools":[{"type":"custom","custom":{"name":"a"}}])", "tools[0].type unsupported_parameter"},
             {R"("tools":[{"type":"mcp"}])", "tools[0].type unsupported_parameter"},
             {R"("tools":[{"function":{"name":"a"}}])", "tools[0].type invalid_value"},
             {R"("tools":[{"type":"function"}])", "tools[0].function invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":"a"},"x":1}])", "tools[0].x unknown_parameter"},
             {R"("tools":[{"type":"function","function":{"name":"a","x":1}}])", "tools[0].function.x unknown_parameter"},
             {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":""}}])", "tools[0].function.name invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":1}}])", "tools[0].function.name invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":")" + std::string(65, 'a') + R"("}}])", "tools[0].function.name invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":"a","parameters":[]}}])", "tools[0].function.parameters invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":"a","strict":1}}])", "tools[0].function.strict invalid_value"},
             {R"("tools":[{"type":"function","function":{"name":"a","description":1}}])", "tools[0].function.description invalid_value"},
             {"\"tools\":[" + kTool + "," + kTool + "]", "tools[1].function.name invalid_value"},
             {R"("tools":{})", "tools invalid_value"},
             {R"("tools":[1])", "tools[0] invalid_value"},
             {R"("parallel_tool_calls":"no")", "parallel_tool_calls invalid_value"}})
      expect(verdict(field) == expected) << field << verdict(field);
  };

  "fields without effect"_test = [] {
    for (const char* field : {R"("user":"u")", R"("metadata":{"a":"b"})", R"("safety_identifier":"s")", R"("prompt_cache_key":"k")",
                              R"("prompt_cache_retention":"24h")", R"("prompt_cache_options":{"a":1})", R"("store":false)",
                              R"("service_tier":"auto")", R"("service_tier":"default")", R"("modalities":["text"])", R"("verbosity":"medium")"})
      expect(verdict(field) == "ok") << field;
    for (const auto& [field, name] : std::vector<std::pair<std::string, std::string>>{{R"("store":true)", "store"},
                                                                                      {R"("service_tier":"flex")", "service_tier"},
                                                                                      {R"("modalities":["text","audio"])", "modalities"},
                                                                                      {R"("modalities":[])", "modalities"},
                                                                                      {R"("verbosity":"low")", "verbosity"},
                                                                                      {R"("functions":[])", "functions"},
                                                                                      {R"("function_call":"auto")", "function_call"},
                                                                                      {R"("audio":{})", "audio"},
                                                                                      {R"("web_search_options":{})", "web_search_options"},
                                                                                      {R"("moderation":{"model":"x"})", "moderation"}})
      expect(verdict(field) == name + " unsupported_parameter") << field;
    expect(refusal_from([] { job_with(R"("functions":[])"); })->message.find("tools") != std::string::npos);
  };

  "fields of a wrong kind, out of range, or unknown"_test = [] {
    for (const auto& [name, values] :
         std::vector<std::pair<std::string, std::vector<std::string>>>{{"temperature", {"2.1", "-0.1", "true", "\"1\"", "1e300"}},
                                                                       {"top_p", {"1.1", "-1", "[]"}},
                                                                       {"top_k", {"-1", "1.0", "2147483648"}},
                                                                       {"min_p", {"2", "{}"}},
                                                                       {"presence_penalty", {"2.5", "-3", "false"}},
                                                                       {"frequency_penalty", {"3", "\"\""}},
                                                                       {"repetition_penalty", {"0", "101"}},
                                                                       {"seed", {"1.5", "9223372036854775808", "\"1\"", "true"}},
                                                                       {"n", {"0", "9", "1.0", "true"}},
                                                                       {"max_tokens", {"0", "-1", "1.5", "\"1\""}},
                                                                       {"max_completion_tokens", {"0", "1.0"}},
                                                                       {"logprobs", {"1", "\"true\""}},
                                                                       {"top_logprobs", {"21", "-1", "true", "1"}},
                                                                       {"stop", {"1", "\"\"", "{}"}},
                                                                       {"stream", {"1", "\"yes\""}},
                                                                       {"stream_options", {"{}", "true"}},
                                                                       {"cache_salt", {"1"}},
                                                                       {"thinking_budget_tokens", {"-1", "1.5"}},
                                                                       {"reasoning_effort", {"\"some\"", "1", "true"}},
                                                                       {"chat_template_kwargs", {"[]", "1"}},
                                                                       {"continue_final_message", {"1", "true"}},
                                                                       {"prediction", {"\"x\"", "[]"}},
                                                                       {"response_format", {"\"json\"", "[]"}},
                                                                       {"tool_choice", {"1", "true", "[]"}},
                                                                       {"user", {"1"}},
                                                                       {"metadata", {"\"x\"", "[]"}},
                                                                       {"safety_identifier", {"{}"}},
                                                                       {"prompt_cache_key", {"1"}},
                                                                       {"prompt_cache_retention", {"1"}},
                                                                       {"prompt_cache_options", {"\"x\""}},
                                                                       {"store", {"0", "\"no\""}},
                                                                       {"service_tier", {"1"}},
                                                                       {"modalities", {"\"text\""}},
                                                                       {"verbosity", {"1"}},
                                                                       {"logit_bias", {"[]", "1"}},
                                                                       {"model", {"1"}}})
      for (const std::string& value : values)
        expect(verdict("\"" + name + "\":" + value) == name + " invalid_value") << name << value << verdict("\"" + name + "\":" + value);
    for (const char* name : {"grammar", "echo", "best_of", "suffix", "Temperature", "max_output_tokens", "parse_special", ""})
      expect(verdict("\"" + std::string(name) + "\":1") == std::string(name) + " unknown_parameter") << name;
    expect(verdict(R"("max_completion_tokens":6,"max_tokens":5)") == "max_tokens invalid_value");
    expect(verdict(R"("logprobs":false,"top_logprobs":0)") == "top_logprobs invalid_value");
    expect(verdict(R"("stream":true,"stream_options":{"x":1})") == "stream_options.x unknown_parameter");
    expect(verdict(R"("stream":true,"stream_options":{"include_usage":1})") == "stream_options.include_usage invalid_value");
    expect(verdict(R"("stream":true,"stream_options":{"include_obfuscation":1})") == "stream_options.include_obfuscation invalid_value");
    for (const char* bias : {R"({"1000":1})", R"({"-1":1})", R"({"01":1})", R"({"+1":1})", R"({"x":1})", R"({"":1})", R"({"99999999999":1})"})
      expect(verdict("\"logit_bias\":" + std::string(bias)) == "logit_bias invalid_value") << bias;
    expect(verdict(R"("logit_bias":{"5":101})") == "logit_bias.5 invalid_value" &&
           verdict(R"("logit_bias":{"5":true})") == "logit_bias.5 invalid_value");
    expect(verdict(R"("stop":["a",""])") == "stop[1] invalid_value" && verdict(R"("stop":[1])") == "stop[0] invalid_value");
    expect(verdict(R"("stop":")" + std::string(257, 'x') + "\"") == "stop invalid_value" &&
           verdict(R"("stop":")" + std::string(256, 'x') + "\"") == "ok");
    std::string many = "\"x\"";
    for (int i = 1; i < 16; ++i) many += ",\"x\"";
    expect(verdict("\"stop\":[" + many + "]") == "ok" && verdict("\"stop\":[" + many + ",\"x\"]") == "stop invalid_value");
    std::string biases = "\"0\":1";
    Facts facts = some_facts();
    facts.vocab = 5000;
    for (int i = 1; i < 1024; ++i) biases += ",\"" + std::to_string(i) + "\":1";
    expect(verdict_of([&] { read(with_field(kAsked, "\"logit_bias\":{" + biases + "}"), facts); }) == "ok");
    expect(verdict_of([&] { read(with_field(kAsked, "\"logit_bias\":{" + biases + ",\"1024\":1}"), facts); }) == "logit_bias invalid_value");
  };

  "null is the same as absent"_test = [] {
    for (const char* name : kOpenAiFields) expect(verdict("\"" + std::string(name) + "\":null") == "ok") << name;
    expect(verdict_of([] { read(R"({"messages":null})"); }) == "messages invalid_value");
  };

  "other models are not found"_test = [] {
    const auto refusal = refusal_from([] { job_with(R"("model":"gpt-5")"); });
    expect(refusal && refusal->status == 404 && refusal->code == "model_not_found" && refusal->message == "[model] expected pebble, got \"gpt-5\"");
    Facts facts = some_facts();
    facts.names.push_back("*");
    expect(verdict_of([&] { read(with_field(kAsked, R"("model":"gpt-5")"), facts); }) == "ok");
  };

  "messages become a prompt"_test = [] {
    expect(
        prompt_of(
            R"({"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"What is "},{"type":"text","text":"1+1?"}],"name":"Ann"}]})") ==
        "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nWhat is1+1?<turn|>\n<|turn>model\n<|channel>thought\n<channel|>");
    // As an SDK dumps what it got, with a result behind it.
    expect(
        prompt_of(R"({"tools":[)" + kTool + R"(],"messages":[{"role":"user","content":"add"},
                     {"role":"assistant","content":null,"reasoning_content":"Hm.","refusal":null,"annotations":[],"audio":null,"function_call":null,
                      "tool_calls":[{"id":"call_1","type":"function","function":{"name":"add","arguments":"{\"a\":1,\"b\":2.0}"}}]},
                     {"role":"tool","tool_call_id":"call_1","content":"3"}]})") ==
        "<bos><|turn>system\n<|tool>declaration:add{description:<|\"|>Adds<|\"|>,parameters:{properties:{a:{type:<|\"|>INTEGER<|\"|>}},type:<|\"|>OBJECT<|\"|>}}<tool|><turn|>\n"
        "<|turn>user\nadd<turn|>\n<|turn>model\n<|channel>thought\nHm.\n<channel|><|tool_call>call:add{a:1,b:2.0}<tool_call|><|tool_response>response:add{value:<|\"|>3<|\"|>}<tool_response|>");
  };

  "messages that are wrong"_test = [] {
    const std::string user = R"({"role":"user","content":"x"})";
    const auto call = [](const std::string& function, const std::string& id = "\"1\"") {
      return R"({"role":"assistant","tool_calls":[{"id":)" + id + R"(,"type":"function","function":)" + function + "}]}";
    };
    const std::string called = call(R"({"name":"f","arguments":"{}"})"), result = R"({"role":"tool","tool_call_id":"1","content":"r"})";
    for (
        const auto& [messages, expected] : std::vector<std::pair<std::string, std::string>>{
            {"[]", "messages invalid_value"},
            {"{}", "messages invalid_value"},
            {"\"hi\"", "messages invalid_value"},
            {"[1]", "messages[0] invalid_value"},
            {"[{}]", "messages[0].role invalid_value"},
            {R"([{"role":"model","content":"x"}])", "messages[0].role invalid_value"},
            {R"([{"role":1,"content":"x"}])", "messages[0].role invalid_value"},
            {R"([{"role":"user"}])", "messages[0].content invalid_value"},
            {R"([{"role":"user","content":null}])", "messages[0].content invalid_value"},
            {R"([{"role":"user","content":[]}])", "messages[0].content invalid_value"},
            {R"([{"role":"user","content":1}])", "messages[0].content invalid_value"},
            {R"([{"role":"user","content":["x"]}])", "messages[0].content[0] invalid_value"},
            {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text invalid_value"},
            {R"([{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type invalid_value"},
            {R"([{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"e"}}]}])",
             "messages[0].content[0].cache_control unknown_parameter"},
            {R"([{"role":"system","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:;base64,"}}]}])",
             "messages[0].content[1].image_url unsupported_parameter"},
            {R"([{"role":"user","content":[{"type":"video_url","video_url":{}}]}])", "messages[0].content[0].video_url unsupported_parameter"},
            {R"([{"role":"user","content":[{"type":"refusal","refusal":"x"}]}])", "messages[0].content[0].type invalid_value"},
            {R"([{"role":"user","content":"x","name":1}])", "messages[0].name invalid_value"},
            {R"([{"role":"user","content":"x","other":1}])", "messages[0].other unknown_parameter"},
            {R"([{"role":"user","content":"x","tool_calls":[{"id":"1"}]}])", "messages[0].tool_calls unknown_parameter"},
            {"[" + user + R"(,{"role":"assistant","content":"y"}])", "messages[1] invalid_value"},
            {R"([{"role":"assistant"},)" + user + "]", "messages[0].content invalid_value"},
            {R"([{"role":"assistant","content":"x","refusal":"no"},)" + user + "]", "messages[0].refusal unknown_parameter"},
            {R"([{"role":"assistant","content":"x","reasoning":"a","reasoning_content":"b"},)" + user + "]", "messages[0].reasoning invalid_value"},
            {R"([{"role":"assistant","content":"x","reasoning":1},)" + user + "]", "messages[0].reasoning invalid_value"},
            {"[" + result + "]", "messages[0].tool_call_id invalid_value"},
            {"[" + called + "," + user + "," + result + "]", "messages[2].tool_call_id invalid_value"},
            {"[" + called + R"(,{"role":"tool","content":"r"}])", "messages[1].tool_call_id invalid_value"},
            {"[" + called + R"(,{"role":"tool","tool_call_id":"2","content":"r"}])", "messages[1].tool_call_id invalid_value"},
            {"[" + called + R"(,{"role":"tool","tool_call_id":"1"}])", "messages[1].content invalid_value"},
            {"[" + call(R"({"name":"f","arguments":"[]"})") + "," + result + "]", "messages[0].tool_calls[0].function.arguments invalid_value"},
            {"[" + call(R"({"name":"f","arguments":""})") + "," + result + "]", "messages[0].tool_calls[0].function.arguments invalid_value"},
            {"[" + call(R"({"name":"f","arguments":{"a":1}})") + "," + result + "]", "messages[0].tool_calls[0].function.arguments invalid_value"},
            {"[" + call(R"({"name":"f"})") + "," + result + "]", "messages[0].tool_calls[0].function.arguments invalid_value"},
            {"[" + call(R"({"name":"","arguments":"{}"})") + "," + result + "]", "messages[0].tool_calls[0].function.name invalid_value"},
            {"[" + call(R"({"arguments":"{}"})") + "," + result + "]", "messages[0].tool_calls[0].function.name invalid_value"},
            {"[" + call(R"({"name":"f","arguments":"{}"})", "1") + "," + result + "]", "messages[0].tool_calls[0].id invalid_value"},
            {R"([{"role":"assistant","tool_calls":[{"id":"1","type":"custom","function":{"name":"f","arguments":"{}"}}]}])",
             "messages[0].tool_calls[0].type invalid_value"},
            {R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}},{"id":"1","function":{"name":"f","arguments":"{}"}}]}])",
             "messages[0].tool_calls[1].id invalid_value"}})
      expect(messages_verdict(messages) == expected) << messages << messages_verdict(messages);
    expect(messages_verdict("[" + called + "," + result + "," + result + "]") == "ok");

    std::string calls;
    for (int i = 0; i < 1025; ++i)
      calls += R"({"id":")" + std::to_string(i) + R"(","function":{"name":"f","arguments":"{}"}})" + (i < 1024 ? "," : "");
    expect(messages_verdict(R"([{"role":"assistant","tool_calls":[)" + calls + "]}]") == "messages[0].tool_calls invalid_value");

    std::string many = user;
    for (int i = 1; i < 4096; ++i) many += "," + user;
    expect(messages_verdict("[" + many + "]") == "ok" && messages_verdict("[" + many + "," + user + "]") == "messages invalid_value");
  };

  "the assistant's last message is continued when asked"_test = [] {
    const std::string asked = R"("continue_final_message":true)", user = R"({"role":"user","content":"x"})";
    expect(messages_verdict("[" + user + R"(,{"role":"assistant","content":"y"}])", asked) == "ok");
    expect(std::get<ChatPrompt>(read(R"({"continue_final_message":true,"messages":[)" + user + R"(,{"role":"assistant","content":"y"}]})").job.prompt)
               .continues);
    expect(messages_verdict("[" + user + "]", asked) == "continue_final_message invalid_value");
    expect(messages_verdict("[" + user + "]", R"("continue_final_message":false)") == "ok");
    expect(messages_verdict("[" + user + R"(,{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}])", asked) ==
           "messages[1].tool_calls invalid_value");
    expect(messages_verdict("[" + user + R"(,{"role":"assistant","content":"y","reasoning":"z"}])", asked) ==
           "messages[1].reasoning_content unsupported_parameter");
  };
};

}  // namespace
}  // namespace lapidary::test::chat_api_test
