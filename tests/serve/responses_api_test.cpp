#include <boost/ut.hpp>

#include "serve/translation.hpp"

namespace lapidary::test::responses_api_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;
using lapidary::text::Value;

constexpr std::string_view kTools = R"([{"type":"function","name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":null},{"type":"function","name":"clock"}])";

std::string options_of(std::string_view body) {
  return outcome_of(read_response, body, [](const Request& request) { return described(request.job); });
}
// Of {"input":"Hi", FIELDS}.
std::string with(std::string_view fields) { return options_of(R"({"input":"Hi",)" + std::string(fields) + "}"); }
std::string with_tools(std::string_view fields) { return with(R"("tools":)" + std::string(kTools) + "," + std::string(fields)); }

std::string messages_of(std::string_view input) {
  return outcome_of(read_response, R"({"input":)" + std::string(input) + "}", [](const Request& request) { return prompt_of(request.job); });
}

Request request_of(std::string_view fields) { return read_response(parse_body(R"({"input":"Hi")" + std::string(fields) + "}"), fixed_facts()); }

constexpr std::string_view kCall = R"({"type":"function_call","call_id":"c1","name":"weather","arguments":"{\"city\":\"Bern\"}"})";

suite<"responses API"> responses = [] {
  "honours"_test = [] {
    expect(with(R"("model":"stone")") == "{}");
    expect(with(R"("temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":4)") == R"({"temperature":0.5,"top_p":0.25,"min_p":0.125,"top_k":4.0})");
    expect(with(R"("presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.5)") ==
           R"({"repetition":1.5,"presence":-2.0,"frequency":2.0})");
    expect(with(R"("seed":-1,"logit_bias":{"7":-100})") == R"({"seed":-1,"bias 7":-100.0})");
    expect(with(R"("max_output_tokens":5,"stop":["a","b"])") == R"({"max_tokens":5,"stop":"a","stop":"b"})");
    expect(with(R"("thinking_budget_tokens":9,"cache_salt":"s")") == R"({"thinking_budget":9.0,"cache_salt":"s"})");
    expect(with(R"("include":["message.output_text.logprobs"])") == R"({"logprobs":0})");
    expect(with(R"("include":["message.output_text.logprobs"],"top_logprobs":20)") == R"({"logprobs":20})");
    expect(with(R"("reasoning":{"effort":"minimal"})") == R"({"think":true})");
    expect(with(R"("reasoning":{"effort":"none"})") == "{}");
    expect(with(R"("text":{"format":{"type":"json_object"}})") == R"({"schema":{"type":"object"}})");
    expect(with(R"("tools":[{"type":"function","name":"f"}],"text":{"format":{"type":"json_object"}})") ==
           R"({"schema":{"type":"object"},"tools":[{"type":"function","function":{"name":"f"}}],"strict_tools":[{"type":"function","function":{"name":"f"}}]})");
    expect(with(R"("text":{"format":{"type":"json_schema","name":"n","strict":true,"description":"d","schema":{"type":"array"}}})") ==
           R"({"schema":{"type":"array"}})");
    expect(request_of(R"(,"stream":true)").streams);
    expect(!request_of("").streams);
  };

  "thinks by default where the server does"_test = [] {
    Facts facts = fixed_facts();
    facts.thinks = true;
    expect(described(read_response(parse_body(R"({"input":"Hi"})"), facts).job) == R"({"think":true})");
    expect(described(read_response(parse_body(R"({"input":"Hi","reasoning":{"effort":"none"}})"), facts).job) == "{}");
  };

  "declares tools and holds calls to the choice"_test = [] {
    const std::string declared =
        R"("tools":[{"type":"function","function":{"name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"clock"}}])";
    const std::string weather =
        R"({"type":"function","function":{"name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}})";
    const std::string clock = R"({"type":"function","function":{"name":"clock"}})";
    expect(with_tools(R"("tool_choice":"auto")") == "{" + declared + "}");
    expect(with_tools(R"("tool_choice":"none")") == "{" + declared + R"(,"no calls":true})");
    expect(with_tools(R"("tool_choice":"required")") == "{" + declared + R"(,"strict_tools":[)" + weather + "," + clock + R"(],"calls":true})");
    expect(with_tools(R"("tool_choice":{"type":"function","name":"clock"})") ==
           "{" + declared + R"(,"strict_tools":[)" + clock + R"(],"calls":true,"single_call":true})");
    expect(with_tools(R"("parallel_tool_calls":false)") == "{" + declared + R"(,"single_call":true})");
  };

  "takes fields without effect"_test = [] {
    for (const std::string_view field :
         {R"("store":false)", R"("truncation":"disabled")", R"("metadata":{"a":"b"})", R"("user":"u")", R"("include":[])",
          R"("include":["reasoning.encrypted_content"])", R"("service_tier":"auto")", R"("service_tier":"default")",
          R"("prompt_cache_key":"k")", R"("prompt_cache_retention":"24h")", R"("prompt_cache_options":{"mode":"implicit"})",
          R"("safety_identifier":"s")", R"("background":false)", R"("stream":true,"stream_options":{"include_obfuscation":true})",
          R"("text":{"format":{"type":"text"},"verbosity":"medium"})", R"("reasoning":{"summary":"auto","context":"auto","mode":"standard"})",
          R"("top_logprobs":0)", R"("instructions":null)", R"("tools":[])"})
      expect(with(field) == "{}") << field;
    expect(with_tools(R"("reasoning":null)") == with(R"("tools":)" + std::string(kTools)));
  };

  "takes null for absent"_test = [] {
    for (const std::string_view name :
         {"model", "instructions", "max_output_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
          "repetition_penalty", "seed", "logit_bias", "stop", "thinking_budget_tokens", "cache_salt", "include", "top_logprobs", "tools",
          "tool_choice", "parallel_tool_calls", "text", "reasoning", "stream", "stream_options", "store", "truncation", "metadata", "user",
          "service_tier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "background",
          "previous_response_id", "conversation", "prompt", "max_tool_calls", "context_management", "moderation"})
      expect(with("\"" + std::string(name) + "\":null") == "{}") << name;
  };

  "refuses what it has not"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("previous_response_id":"resp_1")", "previous_response_id"}, {R"("conversation":"c")", "conversation"},
        {R"("background":true)", "background"}, {R"("store":true)", "store"}, {R"("truncation":"auto")", "truncation"},
        {R"("prompt":{"id":"p"})", "prompt"}, {R"("max_tool_calls":1)", "max_tool_calls"},
        {R"("context_management":[{"type":"compaction"}])", "context_management"}, {R"("moderation":{"model":"m"})", "moderation"},
        {R"("service_tier":"flex")", "service_tier"}, {R"("include":["file_search_call.results"])", "include[0]"},
        {R"("tools":[{"type":"web_search"}])", "tools[0].type"}, {R"("tools":[{"type":"custom","name":"c"}])", "tools[0].type"},
        {R"("tools":[{"type":"function","name":"f","defer_loading":true}])", "tools[0].defer_loading"},
        {R"("tools":[{"type":"function","name":"f","async":true}])", "tools[0].async"},
        {R"("tools":[{"type":"function","name":"f","output_schema":{}}])", "tools[0].output_schema"},
        {R"("tool_choice":{"type":"allowed_tools"})", "tool_choice.type"}, {R"("text":{"verbosity":"low"})", "text.verbosity"},
        {R"("reasoning":{"summary":"detailed"})", "reasoning.summary"}, {R"("reasoning":{"context":"all_turns"})", "reasoning.context"},
        {R"("reasoning":{"mode":"pro"})", "reasoning.mode"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 unsupported_parameter " + std::string(param)) << field;
  };

  "refuses what nobody knows"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("messages":[])", "messages"}, {R"("max_tokens":5)", "max_tokens"}, {R"("n":1)", "n"}, {R"("text":{"x":1})", "text.x"},
        {R"("reasoning":{"x":1})", "reasoning.x"}, {R"("text":{"format":{"type":"text","x":1}})", "text.format.x"},
        {R"("tools":[{"type":"function","name":"f","x":1}])", "tools[0].x"},
        {R"("tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f","x":1})", "tool_choice.x"},
        {R"("stream":true,"stream_options":{"include_usage":true})", "stream_options.include_usage"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 unknown_parameter " + std::string(param)) << field;
  };

  "refuses wrong values"_test = [] {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"("instructions":1)", "instructions"}, {R"("max_output_tokens":0)", "max_output_tokens"},
        {R"("max_output_tokens":1.5)", "max_output_tokens"}, {R"("temperature":true)", "temperature"}, {R"("temperature":2.1)", "temperature"},
        {R"("top_p":"1")", "top_p"}, {R"("seed":1.5)", "seed"}, {R"("stop":[""])", "stop[0]"}, {R"("include":"x")", "include"},
        {R"("include":[1])", "include[0]"}, {R"("include":["message.output_text.logprobs"],"top_logprobs":21)", "top_logprobs"},
        {R"("top_logprobs":1)", "top_logprobs"}, {R"("tools":{})", "tools"}, {R"("tools":["f"])", "tools[0]"},
        {R"("tools":[{"name":"f"}])", "tools[0].type"}, {R"("tools":[{"type":"function"}])", "tools[0].name"},
        {R"("tools":[{"type":"function","name":"a b"}])", "tools[0].name"},
        {R"("tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}])", "tools[1].name"},
        {R"("tools":[{"type":"function","name":"f","strict":1}])", "tools[0].strict"},
        {R"("tools":[{"type":"function","name":"f","parameters":[]}])", "tools[0].parameters"}, {R"("tool_choice":"any")", "tool_choice"},
        {R"("tool_choice":"required")", "tool_choice"}, {R"("tool_choice":{"type":"function","name":"g"})", "tool_choice"},
        {R"("tool_choice":{"type":"function"})", "tool_choice.name"}, {R"("parallel_tool_calls":1)", "parallel_tool_calls"},
        {R"("text":"x")", "text"}, {R"("text":{"format":{"type":"xml"}})", "text.format.type"},
        {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema"}, {R"("text":{"verbosity":1})", "text.verbosity"},
        {R"("reasoning":"high")", "reasoning"}, {R"("reasoning":{"effort":"most"})", "reasoning.effort"}, {R"("stream":1)", "stream"},
        {R"("stream_options":{})", "stream_options"}, {R"("store":"no")", "store"}, {R"("metadata":"x")", "metadata"}, {R"("user":1)", "user"},
        {R"("background":1)", "background"}, {R"("service_tier":1)", "service_tier"}, {R"("cache_salt":1)", "cache_salt"}};
    for (const auto& [field, param] : cases) expect(with(field) == "400 invalid_value " + std::string(param)) << field;
    expect(with(R"("model":"gpt-5")") == "404 model_not_found model");
    expect(options_of("{}") == "400 invalid_value input");
  };

  "makes messages of its input"_test = [] {
    expect(messages_of(R"("Hi")") == R"([{"role":"user","content":"Hi"}])");
    expect(messages_of(R"("Hi","instructions":"Be kind.")") == R"([{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}])");
    expect(messages_of(R"([{"role":"developer","content":"a"},{"type":"message","role":"user","content":[{"type":"input_text","text":"b"}]}])") ==
           R"([{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]}])");
  };

  "puts an answer's items into one message"_test = [] {
    expect(messages_of(R"([{"role":"user","content":"Hi"},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},)"
                       R"({"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look","annotations":[],"logprobs":[{"token":"I"}]}]},)" +
                       std::string(kCall) +
                       R"(,{"type":"function_call","id":"fc_2","status":"completed","call_id":"c2","name":"clock","arguments":"{}"},)"
                       R"({"type":"function_call_output","call_id":"c2","output":"noon"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"s"},{"type":"input_text","text":"un"}]}])") ==
           R"([{"role":"user","content":"Hi"},{"role":"assistant","reasoning":"Hm","content":"I look","tool_calls":[)"
           R"({"id":"c1","type":"function","function":{"name":"weather","arguments":{"city":"Bern"}}},)"
           R"({"id":"c2","type":"function","function":{"name":"clock","arguments":{}}}]},)"
           R"({"role":"tool","tool_call_id":"c2","content":"noon"},{"role":"tool","tool_call_id":"c1","content":"sun"}])");
  };

  "takes its own answer back"_test = [] {
    const Request request = request_of("");
    const Value answer = lapidary::text::parse_json(told(*request.writer), "answer");
    Value::Array items = *answer.find("output")->array();
    for (const std::string_view id : {"call_id5", "call_id7"})
      items.push_back(Value::Object{{"type", "function_call_output"}, {"call_id", id}, {"output", "x"}});
    expect(messages_of(lapidary::text::to_json(items)) ==
           R"([{"role":"assistant","reasoning":"Hm, \"Bern\" it is.","content":"I look it\nup.","tool_calls":[)"
           R"({"id":"call_id5","type":"function","function":{"name":"weather","arguments":{"city":"Bern","days":2}}},)"
           R"({"id":"call_id7","type":"function","function":{"name":"clock","arguments":{}}}]},)"
           R"({"role":"tool","tool_call_id":"call_id5","content":"x"},{"role":"tool","tool_call_id":"call_id7","content":"x"}])");
  };

  "refuses input that cannot be answered"_test = [] {
    const std::string call(kCall);
    const std::string result = R"({"type":"function_call_output","call_id":"c1","output":"sun"})";
    const std::string user = R"({"role":"user","content":"Hi"})";
    const std::pair<std::string, std::string_view> cases[] = {
        {"1", "invalid_value input"},
        {"[]", "invalid_value input"},
        {"[1]", "invalid_value input[0]"},
        {"[" + user + R"(,{"role":"assistant","content":"Well"}])", "invalid_value input"},
        {"[" + user + "," + call + "]", "invalid_value input"},
        {"[" + call + "," + user + "]", "invalid_value input[1]"},
        {"[" + result + "]", "invalid_value input[0].call_id"},
        {"[" + call + "," + call + "]", "invalid_value input[1].call_id"},
        {"[" + call + "," + result + "," + result + "]", "invalid_value input[2].call_id"},
        {"[" + call + "," + result + "," + user + "," + result + "]", "invalid_value input[3].call_id"},
        {R"([{"role":"tool","content":"x"}])", "invalid_value input[0].role"},
        {R"([{"role":"user"}])", "invalid_value input[0].content"},
        {R"([{"role":"user","content":1}])", "invalid_value input[0].content"},
        {R"([{"role":"user","content":[{"type":"text","text":"x"}]}])", "invalid_value input[0].content[0].type"},
        {R"([{"role":"user","content":[{"type":"input_text"}]}])", "invalid_value input[0].content[0].text"},
        {R"([{"role":"user","content":[{"type":"input_image","image_url":"data:"}]}])", "invalid_value input[0].content[0].image_url"},
        {R"([{"role":"user","content":"x","y":1}])", "unknown_parameter input[0].y"},
        {R"([{"role":"assistant","content":"x","phase":"commentary"}])", "unsupported_parameter input[0].phase"},
        {R"([{"type":"item_reference","id":"x"}])", "unsupported_parameter input[0].type"},
        {R"([{"type":"web_search_call"}])", "unsupported_parameter input[0].type"},
        {R"([{"type":"function_call","call_id":"c","name":"f","arguments":"[]"}])", "invalid_value input[0].arguments"},
        {R"([{"type":"function_call","call_id":"c","name":"f","arguments":{}}])", "invalid_value input[0].arguments"},
        {R"([{"type":"function_call","call_id":"c","arguments":"{}"}])", "invalid_value input[0].name"},
        {R"([{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]}])", "unsupported_parameter input[0].summary"},
        {R"([{"type":"reasoning","encrypted_content":"x"}])", "unsupported_parameter input[0].encrypted_content"},
        {R"([{"type":"reasoning","content":[{"type":"reasoning_text"}]}])", "invalid_value input[0].content[0].text"}};
    for (const auto& [input, outcome] : cases) expect(messages_of(input) == "400 " + std::string(outcome)) << input;
  };
};

suite<"answers of the responses API"> answers = [] {
  const std::string_view fields = R"(,"instructions":"Be kind.","max_output_tokens":50,"temperature":0.5,"top_p":0.25,"metadata":{"a":"b"},"tools":[{"type":"function","name":"clock"},{"type":"function","name":"weather"}],"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"low"})";
  const std::string_view echoed_before = R"("instructions":"Be kind.","max_output_tokens":50,"metadata":{"a":"b"},"model":"pebble","output":)";
  const std::string_view echoed_after = R"(,"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{"effort":"low","summary":null},"store":false,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[{"type":"function","name":"clock"},{"type":"function","name":"weather"}],"top_p":0.25,"truncation":"disabled","usage":)";
  const std::string whole =
      R"({"id":"resp_id1","object":"response","created_at":1700000000,"status":"completed","error":null,"incomplete_details":null,)" +
      std::string(echoed_before) +
      R"([{"type":"reasoning","id":"rs_id2","summary":[],"content":[{"type":"reasoning_text","text":"Hm, \"Bern\" it is."}]},)"
      R"({"type":"message","id":"msg_id3","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I look it\nup.","annotations":[],"logprobs":[]}]},)"
      R"({"type":"function_call","id":"fc_id4","call_id":"call_id5","name":"weather","arguments":"{\"city\":\"Bern\",\"days\":2}","status":"completed"},)"
      R"({"type":"function_call","id":"fc_id6","call_id":"call_id7","name":"clock","arguments":"{}","status":"completed"}])" +
      std::string(echoed_after) +
      R"({"input_tokens":12,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":0},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":6},"total_tokens":32},"seed":42})";

  "are whole"_test = [&] {
    const Request request = request_of(fields);
    expect(told(*request.writer) == whole);
  };

  "stream"_test = [&] {
    const Request request = request_of(std::string(fields) + R"(,"stream":true)");
    const std::string begun =
        R"("response":{"id":"resp_id1","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,)" +
        std::string(echoed_before) + "[]" + std::string(echoed_after) + "null}}";
    const std::string expected[] = {
        R"({"type":"response.created","sequence_number":0,)" + begun,
        R"({"type":"response.in_progress","sequence_number":1,)" + begun,
        R"({"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"reasoning","id":"rs_id2","summary":[],"content":[]}})",
        R"({"type":"response.reasoning_text.delta","sequence_number":3,"item_id":"rs_id2","output_index":0,"content_index":0,"delta":"Hm, \"Bern\""})",
        R"({"type":"response.reasoning_text.delta","sequence_number":4,"item_id":"rs_id2","output_index":0,"content_index":0,"delta":" it is."})",
        R"({"type":"response.reasoning_text.done","sequence_number":5,"item_id":"rs_id2","output_index":0,"content_index":0,"text":"Hm, \"Bern\" it is."})",
        R"({"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"type":"reasoning","id":"rs_id2","summary":[],"content":[{"type":"reasoning_text","text":"Hm, \"Bern\" it is."}]}})",
        R"({"type":"response.output_item.added","sequence_number":7,"output_index":1,"item":{"type":"message","id":"msg_id3","role":"assistant","status":"in_progress","content":[]}})",
        R"({"type":"response.content_part.added","sequence_number":8,"item_id":"msg_id3","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})",
        R"({"type":"response.output_text.delta","sequence_number":9,"item_id":"msg_id3","output_index":1,"content_index":0,"delta":"I look","logprobs":[]})",
        R"({"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_id3","output_index":1,"content_index":0,"delta":" it\nup.","logprobs":[]})",
        R"({"type":"response.output_text.done","sequence_number":11,"item_id":"msg_id3","output_index":1,"content_index":0,"text":"I look it\nup.","logprobs":[]})",
        R"({"type":"response.content_part.done","sequence_number":12,"item_id":"msg_id3","output_index":1,"content_index":0,"part":{"type":"output_text","text":"I look it\nup.","annotations":[],"logprobs":[]}})",
        R"({"type":"response.output_item.done","sequence_number":13,"output_index":1,"item":{"type":"message","id":"msg_id3","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I look it\nup.","annotations":[],"logprobs":[]}]}})",
        R"({"type":"response.output_item.added","sequence_number":14,"output_index":2,"item":{"type":"function_call","id":"fc_id4","call_id":"call_id5","name":"weather","arguments":"","status":"in_progress"}})",
        R"({"type":"response.function_call_arguments.delta","sequence_number":15,"item_id":"fc_id4","output_index":2,"delta":"{\"city\":\"Bern\",\"days\":2}"})",
        R"({"type":"response.function_call_arguments.done","sequence_number":16,"item_id":"fc_id4","output_index":2,"name":"weather","arguments":"{\"city\":\"Bern\",\"days\":2}"})",
        R"({"type":"response.output_item.done","sequence_number":17,"output_index":2,"item":{"type":"function_call","id":"fc_id4","call_id":"call_id5","name":"weather","arguments":"{\"city\":\"Bern\",\"days\":2}","status":"completed"}})",
        R"({"type":"response.output_item.added","sequence_number":18,"output_index":3,"item":{"type":"function_call","id":"fc_id6","call_id":"call_id7","name":"clock","arguments":"","status":"in_progress"}})",
        R"({"type":"response.function_call_arguments.delta","sequence_number":19,"item_id":"fc_id6","output_index":3,"delta":"{}"})",
        R"({"type":"response.function_call_arguments.done","sequence_number":20,"item_id":"fc_id6","output_index":3,"name":"clock","arguments":"{}"})",
        R"({"type":"response.output_item.done","sequence_number":21,"output_index":3,"item":{"type":"function_call","id":"fc_id6","call_id":"call_id7","name":"clock","arguments":"{}","status":"completed"}})",
        R"({"type":"response.completed","sequence_number":22,"response":)" + whole + "}"};
    std::string stream;
    for (const std::string& data : expected)
      stream += "event: " + *lapidary::text::parse_json(data, "golden").find("type")->string() + "\ndata: " + data + "\n\n";
    expect(told(*request.writer) == stream);
  };

  "put together are what is whole"_test = [&] {
    const Request request = request_of(std::string(fields) + R"(,"stream":true)");
    Value::Array done;
    std::vector<std::string> texts;  // of the deltas of each item
    for (const auto& [type, data] : events_of(told(*request.writer))) {
      if (type == "response.output_item.added") texts.emplace_back();
      if (type.ends_with(".delta")) texts.back() += *data.find("delta")->string();
      if (type == "response.output_item.done") done.push_back(*data.find("item"));
    }
    expect(Value(done) == *lapidary::text::parse_json(whole, "golden").find("output"));
    expect(texts == std::vector<std::string>{"Hm, \"Bern\" it is.", "I look it\nup.", R"({"city":"Bern","days":2})", "{}"});
  };

  "that are cut off are incomplete"_test = [] {
    for (const std::string_view stream : {"false", "true"}) {
      const Request request = request_of(R"(,"stream":)" + std::string(stream));
      const std::string answer = told(*request.writer, {{.reasoning = "Hm"}, {.content = "Wel"}}, {.finish = Finish::length});
      expect(answer.find(R"("status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"})") != answer.npos);
      expect(answer.find(R"("role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"Wel")") != answer.npos);
      expect((answer.find("event: response.incomplete\n") != answer.npos) == (stream == "true"));
    }
  };

  "hold the log probabilities of their own text"_test = [] {
    Delta one{.content = "a"}, two{.content = "b"};
    one.logprobs = {{.chosen = {.id = 1, .bytes = "a", .logprob = -0.5f}, .top = {{.id = 1, .bytes = "a", .logprob = -0.5f}}}};
    two.logprobs = {{.chosen = {.id = 2, .bytes = "b", .logprob = -0.25f}, .top = {}}};
    const std::string first = R"({"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-0.5,"bytes":[97]}]})";
    const std::string second = R"({"token":"b","logprob":-0.25,"bytes":[98],"top_logprobs":[]})";
    const Request streamed = request_of(R"(,"stream":true)"), whole = request_of("");
    const std::string stream = told(*streamed.writer, {one, two}, {});
    expect(stream.find(R"("delta":"a","logprobs":[)" + first + "]}") != stream.npos);
    expect(stream.find(R"("delta":"b","logprobs":[)" + second + "]}") != stream.npos);
    const std::string both = R"("text":"ab","annotations":[],"logprobs":[)" + first + "," + second + "]}";
    expect(stream.find(both) != stream.npos);
    expect(told(*whole.writer, {one, two}, {}).find(both) != std::string::npos);
  };

  "may be empty"_test = [] {
    const Request request = request_of("");
    const std::string answer = told(*request.writer, {}, {});
    expect(answer.find(R"("status":"completed")") != answer.npos);
    expect(answer.find(R"("output":[])") != answer.npos);
  };

  "that fail end with response.failed"_test = [] {
    const Request request = request_of(R"(,"stream":true)");
    AnswerWriter& writer = *request.writer;
    expect(writer.keep_alive() == ": waiting\n\n");
    writer.begin({});
    writer.add({.content = "Wel"});
    const auto events = events_of(writer.fail({.status = 503, .code = "draining", .message = "[server] draining"}));
    expect(events.size() == 1_ul);
    expect(events[0].first == "response.failed");
    const Value& response = *events[0].second.find("response");
    expect(*response.find("status") == Value("failed"));
    expect(lapidary::text::to_json(*response.find("error")) == R"({"code":"server_error","message":"[server] draining"})");
    expect(*response.find("output")->array()->front().find("status") == Value("incomplete"));

    const Request early = request_of(R"(,"stream":true)");
    expect(events_of(early.writer->fail({})).front().first == "response.created");
  };
};

}  // namespace
}  // namespace lapidary::test::responses_api_test
