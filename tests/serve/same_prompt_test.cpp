// One conversation, whichever API carries it, is one prompt.
#include <boost/ut.hpp>

#include "serve/translation.hpp"
#include "text/chat.hpp"

namespace lapidary::test::same_prompt_test {
namespace {

using namespace boost::ut;
using namespace lapidary;
using namespace lapidary::serve;

template <class Read>
std::string rendered(Read read, std::string_view body) {
  const Request request = read(parse_body(body), fixed_facts());
  const ChatPrompt& prompt = std::get<ChatPrompt>(request.job.prompt);
  return text::joined(text::render(text::checked_messages(prompt.messages), prompt.tools, {}, {.enable_thinking = prompt.think}));
}

suite<"APIs"> apis = [] {
  "make the same prompt of a conversation in a tool loop"_test = [] {
    const std::string chat = rendered(read_chat, R"({"reasoning_effort":"low",
      "tools":[{"type":"function","function":{"name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},
               {"type":"function","function":{"name":"clock","parameters":{"type":"object"}}}],
      "messages":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"text","text":"Bern? "},{"type":"text","text":"Now?"}]},
        {"role":"assistant","reasoning_content":"Hm","content":"I look.","tool_calls":[
          {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}},
          {"id":"b","type":"function","function":{"name":"clock","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"a","content":"sun"},{"role":"tool","tool_call_id":"b","content":"noon"}]})");
    const std::string response = rendered(read_response, R"({"reasoning":{"effort":"low"},"instructions":"Be kind.",
      "tools":[{"type":"function","name":"weather","description":"Of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}}}},
               {"type":"function","name":"clock","parameters":{"type":"object"}}],
      "input":[{"role":"user","content":[{"type":"input_text","text":"Bern? "},{"type":"input_text","text":"Now?"}]},
        {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
        {"type":"function_call","call_id":"a","name":"weather","arguments":"{\"city\":\"Bern\"}"},
        {"type":"function_call","call_id":"b","name":"clock","arguments":"{}"},
        {"type":"function_call_output","call_id":"a","output":"sun"},{"type":"function_call_output","call_id":"b","output":"noon"}]})");
    const std::string message = rendered(read_message, R"({"max_tokens":100,"thinking":{"type":"adaptive"},"system":"Be kind.",
      "tools":[{"name":"weather","description":"Of a city","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}},
               {"name":"clock","input_schema":{"type":"object"}}],
      "messages":[{"role":"user","content":[{"type":"text","text":"Bern? "},{"type":"text","text":"Now?"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"I look."},
          {"type":"tool_use","id":"a","name":"weather","input":{"city":"Bern"}},{"type":"tool_use","id":"b","name":"clock","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"sun"},{"type":"tool_result","tool_use_id":"b","content":"noon"}]}]})");
    expect(chat.find("Hm\n<channel|>") != chat.npos && chat.find("response:clock") != chat.npos) << chat;
    expect(response == chat) << response;
    expect(message == chat) << message;
  };
};

}  // namespace
}  // namespace lapidary::test::same_prompt_test
