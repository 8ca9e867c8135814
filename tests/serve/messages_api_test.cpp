#include <boost/ut.hpp>

#include "serve/translation.hpp"

namespace lapidary::test::messages_api_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;
using lapidary::text::Value;

constexpr std::string_view kTools = R"([{"name":"weather","description":"Of a city","input_schema":{"type":"object","properties":{"city":{"type":"string"}}},"cache_control":{"type":"ephemeral"}},{"type":"custom","name":"clock","input_schema":{"type":"object"},"eager_input_streaming":true,"allowed_callers":["direct"],"defer_loading":false,"input_examples":[]}])";

// What a body asks for besides its messages and 100 tokens.
std::string options_of(std::string_view body) {
  return outcome_of(read_message, body, [](Request request) {
    request.job.options.max_tokens -= 100;
    return described(request.job);
  });
}
std::string with(std::string_view fields) {
  return options_of(R"({"max_tokens":100,"messages":[{"role":"user","content":"Hi"}],)" + std::string(fields) + "}");
}
std::string with_tools(std::string_view fields) { return with(R"("tools":)" + std::string(kTools) + "," + std::string(fields)); }

std::string messages_of(std::string_view messages) {
  return outcome_of(read_message, R"({"max_tokens":100,"messages":)" + std::string(messages) + "}",
                    [](const Request& request) { return prompt_of(request.job); });
}

Request request_of(std::string_view fields) {
  return read_message(parse_body(R"({"max_tokens":100,"messages":[{"role":"user","content":"Hi"}])" + std::string(fields) + "}"), fixed_facts());
}

suite<"messages API"> messages = [] {
  "honours"_test = [] {
    expect(with(R"("model":"pebble")") == "{}");
    expect(with(R"("temperature":1,"top_p":0.25,"top_k":4)") == R"({"temperature":1.0,"top_p":0.25,"top_k":4.0})");
    expect(with(R"("min_p":0.125,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.5)") ==
           R"({"min_p":0.125,"repetition":1.5,"presence":-2.0,"frequency":2.0})");
    expect(with(R"("seed":-1,"logit_bias":{"7":1},"cache_salt":"s")") == R"({"seed":-1,"bias 7":1.0,"cache_salt":"s"})");
    expect(with(R"("stop_sequences":["a","b"])") == R"({"stop":"a","stop":"b"})");
    expect(with(R"("thinking":{"type":"enabled","budget_tokens":99})") == R"({"thinking_budget":99.0,"think":true})");
    expect(with(R"("thinking":{"type":"adaptive","display":"summarized"})") == R"({"think":true})");
    expect(with(R"("thinking":{"type":"disabled"})") == "{}");
    expect(with(R"("output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"array"}}})") ==
           R"({"schema":{"type":"array"}})");
    expect(request_of(R"(,"stream":true)").streams);
    expect(!request_of("").streams);
    expect(request_of("").job.options.max_tokens == 100_i);
  };

  "thinks by default where the server does"_test = [] {
    Facts facts = fixed_facts();
    facts.thinks = true;
    const std::string_view body = R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]})";
    expect(described(read_message(parse_body(body), facts).job) == R"({"max_tokens":9,"think":true})");
  };

  "declares tools and holds calls to the choice"_test = [] {
    const std::string weather =
        R"({"type":"function","function":{"name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}})";
    const std::string clock = R"({"type":"function","function":{"name":"clock","parameters":{"type":"object"}}})";
    const std::string declared = R"("tools":[)" + weather + "," + clock + "]";
    expect(with_tools(R"("tool_choice":{"type":"auto"})") == "{" + declared + "}");
    expect(with_tools(R"("tool_choice":{"type":"auto","disable_parallel_tool_use":true})") == "{" + declared + R"(,"single_call":true})");
    expect(with_tools(R"("tool_choice":{"type":"none"})") == "{" + declared + R"(,"no calls":true})");
    expect(with_tools(R"("tool_choice":{"type":"any"})") == "{" + declared + R"(,"strict_tools":[)" + weather + "," + clock + R"(],"calls":true})");
    expect(with_tools(R"("tool_choice":{"type":"tool","name":"clock"})") ==
           "{" + declared + R"(,"strict_tools":[)" + clock + R"(],"calls":true,"single_call":true})");
    const std::string both = with_tools(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"array"}}})");
    expect(both.starts_with(R"({"schema":{"type":"array"},)") && both.find("strict_tools") != std::string::npos) << both;
    expect(with(R"("tools":[{"name":"f","input_schema":{"type":"object"},"strict":true}])").find("strict_tools") != std::string::npos);
  };

  "takes fields without effect"_test = [] {
    for (const std::string_view field :
         {R"("cache_control":{"type":"ephemeral","ttl":"1h"})", R"("metadata":{"user_id":"u"})", R"("service_tier":"auto")",
          R"("service_tier":"standard_only")", R"("speed":"standard")", R"("output_config":{"effort":"max"})", R"("tools":[])",
          R"("stop_sequences":[])"})
      expect(with(field) == "{}") << field;
  };

  "takes null for absent"_test = [] {
    for (const std::string_view name :
         {"model", "system", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed",
          "logit_bias", "stop_sequences", "cache_salt", "tools", "tool_choice", "thinking", "output_config", "stream", "cache_control",
          "metadata", "service_tier", "speed", "container", "mcp_servers", "context_management"})
      expect(with("\"" + std::string(name) + "\":null") == "{}") << name;
    expect(with(R"("output_config":{"effort":null,"format":null})") == "{}");
  };

  "refuses what it has not"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("container":"c")", "container"}, {R"("mcp_servers":[{"type":"url"}])", "mcp_servers"},
        {R"("context_management":{"edits":[]})", "context_management"}, {R"("speed":"fast")", "speed"},
        {R"("tools":[{"type":"web_search_20250305","name":"web_search"}])", "tools[0].type"},
        {R"("tools":[{"name":"f","input_schema":{},"defer_loading":true}])", "tools[0].defer_loading"},
        {R"("tools":[{"name":"f","input_schema":{},"input_examples":[{}]}])", "tools[0].input_examples"},
        {R"("tools":[{"name":"f","input_schema":{},"allowed_callers":["code_execution_20250825"]}])", "tools[0].allowed_callers"},
        {R"("thinking":{"type":"adaptive","display":"omitted"})", "thinking.display"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 unsupported_parameter " + std::string(param)) << field;
  };

  "refuses what nobody knows"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("stop":"x")", "stop"}, {R"("max_output_tokens":5)", "max_output_tokens"}, {R"("n":1)", "n"},
        {R"("thinking":{"type":"disabled","budget_tokens":5})", "thinking.budget_tokens"}, {R"("output_config":{"x":1})", "output_config.x"},
        {R"("tools":[{"name":"f","input_schema":{},"x":1}])", "tools[0].x"}, {R"("tool_choice":{"type":"auto","name":"f"})", "tool_choice.name"},
        {R"("system":[{"type":"text","text":"x","y":1}])", "system[0].y"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 unknown_parameter " + std::string(param)) << field;
  };

  "refuses wrong values"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("temperature":true)", "temperature"}, {R"("top_k":1.5)", "top_k"}, {R"("stop_sequences":[1])", "stop_sequences[0]"},
        {R"("stream":"yes")", "stream"}, {R"("system":1)", "system"}, {R"("system":[{"type":"text"}])", "system[0].text"},
        {R"("tools":{})", "tools"}, {R"("tools":[{"name":"f"}])", "tools[0].input_schema"},
        {R"("tools":[{"name":"f","input_schema":1}])", "tools[0].input_schema"}, {R"("tools":[{"input_schema":{}}])", "tools[0].name"},
        {R"("tool_choice":"auto")", "tool_choice"}, {R"("tool_choice":{"type":"required"})", "tool_choice.type"},
        {R"("tool_choice":{"type":"any"})", "tool_choice"}, {R"("tool_choice":{"type":"tool"})", "tool_choice.name"},
        {R"("tool_choice":{"type":"auto","disable_parallel_tool_use":1})", "tool_choice.disable_parallel_tool_use"},
        {R"("thinking":true)", "thinking"}, {R"("thinking":{"type":"between_tools"})", "thinking.type"},
        {R"("thinking":{"type":"enabled"})", "thinking.budget_tokens"},
        {R"("thinking":{"type":"enabled","budget_tokens":0})", "thinking.budget_tokens"},
        {R"("thinking":{"type":"enabled","budget_tokens":100})", "thinking.budget_tokens"},
        {R"("output_config":{"effort":"most"})", "output_config.effort"}, {R"("output_config":{"format":{"type":"text"}})", "output_config.format.type"},
        {R"("output_config":{"format":{"type":"json_schema"}})", "output_config.format.schema"}, {R"("metadata":"x")", "metadata"},
        {R"("cache_control":1)", "cache_control"}, {R"("service_tier":"flex")", "service_tier"}, {R"("cache_salt":1)", "cache_salt"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 invalid_value " + std::string(param)) << field;
    expect(with(R"("model":"claude")") == "404 model_not_found model");
    expect(with(R"("max_tokens":0)") == "400 invalid_value max_tokens");
    expect(options_of(R"({"messages":[{"role":"user","content":"Hi"}]})") == "400 invalid_value max_tokens");
    expect(options_of(R"({"max_tokens":1})") == "400 invalid_value messages");
  };

  "makes messages for the template"_test = [] {
    expect(messages_of(R"([{"role":"user","content":"Hi"}],"system":"Be kind.")") ==
           R"([{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}])");
    expect(messages_of(R"([{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"citations":null},{"type":"text","text":"b"}]}],)"
                       R"("system":[{"type":"text","text":"Be","cache_control":{"type":"ephemeral"}},{"type":"text","text":"kind."}])") ==
           R"([{"role":"system","content":"Be\nkind."},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
  };

  "puts blocks into one message, results into their own"_test = [] {
    expect(messages_of(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"I look"},)"
                       R"({"type":"tool_use","id":"t1","name":"weather","input":{"city":"Bern"},"caller":{"type":"direct"}},{"type":"tool_use","id":"t2","name":"clock","input":{}},{"type":"tool_use","id":"t3","name":"clock"}]},)"
                       R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"broken","is_error":true},{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"s"},{"type":"text","text":"un"}]},)"
                       R"({"type":"tool_result","tool_use_id":"t3"},{"type":"text","text":"So?"}]}])") ==
           R"([{"role":"user","content":"Hi"},{"role":"assistant","reasoning":"Hm","content":"I look","tool_calls":[)"
           R"({"id":"t1","type":"function","function":{"name":"weather","arguments":{"city":"Bern"}}},)"
           R"({"id":"t2","type":"function","function":{"name":"clock","arguments":{}}},{"id":"t3","type":"function","function":{"name":"clock","arguments":{}}}]},)"
           R"({"role":"tool","tool_call_id":"t2","content":"Error: broken"},{"role":"tool","tool_call_id":"t1","content":"sun"},)"
           R"({"role":"tool","tool_call_id":"t3","content":""},{"role":"user","content":[{"type":"text","text":"So?"}]}])");
  };

  "continues the assistant's message at the end"_test = [] {
    const std::string body = R"({"max_tokens":100,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"The answer is ("}]})";
    expect(options_of(body) == R"({"continues":true})");
    expect(prompt_of(read_message(parse_body(body), fixed_facts()).job) ==
           R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"The answer is ("}])");
  };

  "takes its own answer back"_test = [] {
    const Request request = request_of("");
    const Value answer = lapidary::text::parse_json(told(*request.writer), "answer");
    const Value::Array all{Value::Object{{"role", "assistant"}, {"content", *answer.find("content")}},
                           Value::Object{{"role", "user"},
                                         {"content", Value::Array{Value::Object{{"type", "tool_result"}, {"tool_use_id", "toolu_id2"}},
                                                                  Value::Object{{"type", "tool_result"}, {"tool_use_id", "toolu_id3"}}}}}};
    expect(messages_of(lapidary::text::to_json(all)) ==
           R"([{"role":"assistant","reasoning":"Hm, \"Bern\" it is.","content":"I look it\nup.","tool_calls":[)"
           R"({"id":"toolu_id2","type":"function","function":{"name":"weather","arguments":{"city":"Bern","days":2}}},)"
           R"({"id":"toolu_id3","type":"function","function":{"name":"clock","arguments":{}}}]},)"
           R"({"role":"tool","tool_call_id":"toolu_id2","content":""},{"role":"tool","tool_call_id":"toolu_id3","content":""}])");
  };

  "refuses messages that cannot be answered"_test = [] {
    const std::string call = R"({"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]})";
    const std::string result = R"({"type":"tool_result","tool_use_id":"t1","content":"x"})";
    const std::string user = R"({"role":"user","content":"Hi"})";
    const auto from_user = [](std::string block) { return R"([{"role":"user","content":[)" + block + "]}]"; };
    const auto from_assistant = [](std::string block) { return R"([{"role":"assistant","content":[)" + block + "]}]"; };
    const std::pair<std::string, std::string_view> cases[] = {
        {"1", "invalid_value messages"},
        {"[]", "invalid_value messages"},
        {"[1]", "invalid_value messages[0]"},
        {R"([{"role":"system","content":"x"}])", "invalid_value messages[0].role"},
        {R"([{"content":"x"}])", "invalid_value messages[0].role"},
        {R"([{"role":"user"}])", "invalid_value messages[0].content"},
        {R"([{"role":"user","content":1}])", "invalid_value messages[0].content"},
        {R"([{"role":"user","content":"x","name":"y"}])", "unknown_parameter messages[0].name"},
        {"[" + user + "," + call + "]", "invalid_value messages[1]"},
        {"[" + call + "," + user + "]", "invalid_value messages[1].content"},
        {from_user(result), "invalid_value messages[0].content[0].tool_use_id"},
        {"[" + call + R"(,{"role":"user","content":[{"type":"text","text":"x"},)" + result + "]}]", "invalid_value messages[1].content[1]"},
        {"[" + call + R"(,{"role":"user","content":[)" + result + "," + result + "]}]", "invalid_value messages[1].content[1].tool_use_id"},
        {from_assistant(R"({"type":"thinking","thinking":"x","signature":"s"})"), "invalid_value messages[0]"},
        {from_assistant(R"({"type":"redacted_thinking","data":"x"})"), "unsupported_parameter messages[0].content[0].type"},
        {from_assistant(R"({"type":"tool_use","name":"f","input":{}})"), "invalid_value messages[0].content[0].id"},
        {from_assistant(R"({"type":"tool_use","id":"t","input":{}})"), "invalid_value messages[0].content[0].name"},
        {from_assistant(R"({"type":"tool_use","id":"t","name":"f","input":"{}"})"), "invalid_value messages[0].content[0].input"},
        {from_assistant(result), "unsupported_parameter messages[0].content[0].type"},
        {from_user(R"({"type":"thinking","thinking":"x"})"), "unsupported_parameter messages[0].content[0].type"},
        {from_user(R"({"type":"image","source":{"type":"url","url":"http://x"}})"), "unsupported_parameter messages[0].content[0].source.type"},
        {from_user(R"({"type":"document","source":{"type":"text","data":"x"}})"), "unsupported_parameter messages[0].content[0].document"},
        {from_user(R"({"type":"text"})"), "invalid_value messages[0].content[0].text"},
        {from_user(R"({"type":"text","text":"x","citations":[{}]})"), "unknown_parameter messages[0].content[0].citations"},
        {from_user(R"({"text":"x"})"), "invalid_value messages[0].content[0].type"},
        {"[" + call + R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":1}]}])",
         "invalid_value messages[1].content[0].is_error"},
        {"[" + call + R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image"}]}]}])",
         "unsupported_parameter messages[1].content[0].content[0].image"}};
    for (const auto& [given, outcome] : cases) expect(messages_of(given) == "400 " + std::string(outcome)) << given;
  };

  "counts the same prompt without max_tokens"_test = [] {
    const std::string fields = R"("system":"Be kind.","tools":)" + std::string(kTools) + R"(,"thinking":{"type":"enabled","budget_tokens":5000},"messages":[{"role":"user","content":"Hi"}])";
    const ChatPrompt counted = read_count_tokens(parse_body("{" + fields + "}"), fixed_facts());
    const Request request = read_message(parse_body(R"({"max_tokens":6000,)" + fields + "}"), fixed_facts());
    const ChatPrompt& asked = std::get<ChatPrompt>(request.job.prompt);
    expect(counted.messages == asked.messages);
    expect(counted.tools == asked.tools);
    expect(counted.think && asked.think);
    const auto none = [](const ChatPrompt&) { return std::string(); };
    expect(outcome_of(read_count_tokens, R"({"messages":[{"role":"user","content":"Hi"}],"x":1})", none) == "400 unknown_parameter x");
  };
};

suite<"answers of the messages API"> answers = [] {
  const std::string whole =
      R"({"id":"msg_id1","type":"message","role":"assistant","model":"pebble","content":[)"
      R"({"type":"thinking","thinking":"Hm, \"Bern\" it is.","signature":"bGFwaWRhcnk="},{"type":"text","text":"I look it\nup."},)"
      R"({"type":"tool_use","id":"toolu_id2","name":"weather","input":{"city":"Bern","days":2}},{"type":"tool_use","id":"toolu_id3","name":"clock","input":{}}],)"
      R"("stop_reason":"tool_use","stop_sequence":null,)"
      R"("usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":20},"seed":42})";

  "are whole"_test = [&] {
    const Request request = request_of("");
    expect(told(*request.writer) == whole);
  };

  "stream"_test = [] {
    const Request request = request_of(R"(,"stream":true)");
    const std::string_view expected[] = {
        R"({"type":"message_start","message":{"id":"msg_id1","type":"message","role":"assistant","model":"pebble","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":0}}})",
        R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}})",
        R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, \"Bern\""}})",
        R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" it is."}})",
        R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"bGFwaWRhcnk="}})",
        R"({"type":"content_block_stop","index":0})",
        R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
        R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I look"}})",
        R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" it\nup."}})",
        R"({"type":"content_block_stop","index":1})",
        R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_id2","name":"weather","input":{}}})",
        R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":\"Bern\",\"days\":2}"}})",
        R"({"type":"content_block_stop","index":2})",
        R"({"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_id3","name":"clock","input":{}}})",
        R"({"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}})",
        R"({"type":"content_block_stop","index":3})",
        R"({"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":8,"output_tokens":20},"seed":42})",
        R"({"type":"message_stop"})"};
    std::string stream;
    for (const std::string_view data : expected)
      stream += "event: " + *lapidary::text::parse_json(data, "golden").find("type")->string() + "\ndata: " + std::string(data) + "\n\n";
    expect(told(*request.writer) == stream);
  };

  "put together are what is whole"_test = [&] {
    const Request request = request_of(R"(,"stream":true)");
    Value::Array blocks;
    for (const auto& [type, data] : events_of(told(*request.writer))) {
      if (type == "content_block_start") blocks.push_back(*data.find("content_block"));
      if (type != "content_block_delta") continue;
      const Value& delta = *data.find("delta");
      Value::Object block = *blocks.back().object();
      for (auto& [key, value] : block) {
        if (const Value* more = delta.find(key); more && key != "type") value = *value.string() + *more->string();
        if (const Value* json = delta.find("partial_json"); json && key == "input") value = lapidary::text::parse_json(*json->string(), "input");
      }
      blocks.back() = block;
    }
    expect(Value(blocks) == *lapidary::text::parse_json(whole, "golden").find("content"));
  };

  "say why they ended"_test = [] {
    const std::pair<ChoiceEnd, std::string_view> cases[] = {
        {{.finish = Finish::stop}, R"("stop_reason":"end_turn","stop_sequence":null)"},
        {{.finish = Finish::length}, R"("stop_reason":"max_tokens","stop_sequence":null)"},
        {{.finish = Finish::stop_text, .stop_text = "END"}, R"("stop_reason":"stop_sequence","stop_sequence":"END")"}};
    for (const auto& [end, reason] : cases)
      for (const std::string_view stream : {"false", "true"}) {
        const Request request = request_of(R"(,"stream":)" + std::string(stream));
        expect(told(*request.writer, {{.content = "a"}}, end).find(reason) != std::string::npos) << reason;
      }
  };

  "may be empty"_test = [] {
    const Request request = request_of("");
    expect(told(*request.writer, {}, {}).find(R"("content":[],"stop_reason":"end_turn")") != std::string::npos);
  };

  "ping while there is nothing to say, and fail with an event"_test = [] {
    const Request request = request_of(R"(,"stream":true)");
    AnswerWriter& writer = *request.writer;
    expect(writer.keep_alive() == ": waiting\n\n");
    writer.begin({});
    expect(writer.keep_alive() == "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    expect(writer.fail({.status = 503, .code = "draining", .message = "[server] draining"}) ==
           "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"[server] draining\"},\"request_id\":null}\n\n");
  };
};

}  // namespace
}  // namespace lapidary::test::messages_api_test
