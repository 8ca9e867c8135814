// Any answer, in any pieces, as each API streams it: whole events of JSON, and put together the answer that is not streamed.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "fuzz/growth.hpp"
#include "serve/event_reader.hpp"
#include "serve/events.hpp"
#include "serve/translation.hpp"

namespace {

using namespace lapidary;
using namespace lapidary::serve;
using test::check;
using text::Value;

constexpr const char* kWords[] = {"a", "city", "\xc3\xa9", "\n", "", "\"", "data: ", "\r\n\r\n"};

class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  unsigned next() { return static_cast<unsigned char>(take(1).empty() ? '\0' : last_.front()); }
  std::string_view take(std::size_t count) {
    last_ = bytes_.substr(0, count);
    bytes_.remove_prefix(last_.size());
    return last_;
  }
  // As the engine gives it: UTF-8.
  std::string text() { return valid_text(take(next() % 16)); }

 private:
  std::string_view bytes_, last_;
};

std::vector<Delta> deltas_of(Bytes& bytes) {
  std::vector<Delta> deltas;
  while (!bytes.empty() && deltas.size() < 64) {
    Delta& delta = deltas.emplace_back();
    const unsigned kinds = bytes.next();
    if (kinds & 1) delta.reasoning = bytes.text();
    if (kinds & 2) delta.content = bytes.text();
    if (kinds & 4) {
      const std::string_view grown = bytes.take(12);
      delta.calls.push_back({"f" + std::to_string(kinds), test::Growth({reinterpret_cast<const std::uint8_t*>(grown.data()), grown.size()}, kWords).object(3)});
    }
    if (!delta.content.empty() && kinds & 8) delta.logprobs.push_back({{1, delta.content, -0.5f}, {{2, std::string("\xff"), -1.0f}}});
  }
  return deltas;
}

// Thought, text and calls, as far as they are told.
struct Told {
  std::string reasoning, content, calls;
  bool operator==(const Told&) const = default;

  void add(std::string& to, const Value* text) {
    if (text && text->string()) to += *text->string();
  }
  void add_call(const Value* name, const Value* arguments) {
    add(calls, name);
    add(calls, arguments);
  }
  // Of a chat: a message, or a delta of it.
  void add_chat(const Value& choice) {
    const Value* said = choice.find("message") ? choice.find("message") : choice.find("delta");
    add(content, choice.find("text"));
    if (!said) return;
    add(reasoning, said->find("reasoning_content"));
    add(content, said->find("content"));
    if (const Value* made = said->find("tool_calls"); made && made->array())
      for (const Value& call : *made->array()) add_call(call.find("function")->find("name"), call.find("function")->find("arguments"));
  }
  void add_choices(const Value& body) {
    for (const Value& choice : *body.find("choices")->array()) add_chat(choice);
  }
  void add_response(const Value& body) {
    for (const Value& item : *body.find("output")->array()) {
      if (*item.find("type") == Value("function_call")) add_call(item.find("name"), item.find("arguments"));
      else add(*item.find("type") == Value("reasoning") ? reasoning : content, item.find("content")->array()->front().find("text"));
    }
  }
  void add_response_event(const std::string& type, const Value& data) {
    if (type == "response.reasoning_text.delta") add(reasoning, data.find("delta"));
    if (type == "response.output_text.delta") add(content, data.find("delta"));
    if (type == "response.function_call_arguments.delta") add(calls, data.find("delta"));
    if (const Value* item = data.find("item"); item && type == "response.output_item.added") add(calls, item->find("name"));
  }
  void add_message(const Value& body) {
    for (const Value& block : *body.find("content")->array()) {
      add(reasoning, block.find("thinking"));
      add(content, block.find("text"));
      if (const Value* input = block.find("input")) {
        add(calls, block.find("name"));
        calls += text::to_json(*input);
      }
    }
  }
  void add_message_event(const Value& data) {
    if (const Value* block = data.find("content_block")) add(calls, block->find("name"));
    const Value* delta = data.find("delta");
    if (!delta) return;
    add(reasoning, delta->find("thinking"));
    add(content, delta->find("text"));
    add(calls, delta->find("partial_json"));
  }
};

using Read = Request(const Value&, const Facts&);

struct Api {
  Read* read;
  const char* body;
  void (*add_whole)(Told&, const Value&);
  void (*add_event)(Told&, const ServerEvent&, const Value&);
};

constexpr auto kChoices = [](Told& told, const Value& body) { told.add_choices(body); };
constexpr auto kChunk = [](Told& told, const ServerEvent&, const Value& data) { told.add_choices(data); };
const Api kApis[] = {
    {read_chat, R"({"messages":[{"role":"user","content":"x"}],"logprobs":true)", kChoices, kChunk},
    {read_completion, R"({"prompt":"x")", kChoices, kChunk},
    {read_response, R"({"input":"x")", [](Told& told, const Value& body) { told.add_response(body); },
     [](Told& told, const ServerEvent& event, const Value& data) { told.add_response_event(event.type, data); }},
    {read_message, R"({"max_tokens":9,"messages":[{"role":"user","content":"x"}])", [](Told& told, const Value& body) { told.add_message(body); },
     [](Told& told, const ServerEvent&, const Value& data) { told.add_message_event(data); }},
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes({reinterpret_cast<const char*>(data), size});
  const Api& api = kApis[bytes.next() % std::size(kApis)];
  const ChoiceEnd end{.finish = static_cast<Finish>(bytes.next() % 4), .stop_text = bytes.text()};
  const std::vector<Delta> deltas = deltas_of(bytes);

  const auto request = [&](const char* more) { return api.read(parse_body(std::string(api.body) + more), fixed_facts()); };
  Told whole, streamed;
  api.add_whole(whole, text::parse_json(told(*request("}").writer, deltas, end), "answer"));
  const std::string stream = told(*request(R"(,"stream":true})").writer, deltas, end);
  check(stream.ends_with("\n\n") && stream.find('\r') == stream.npos);
  for (const ServerEvent& event : EventReader().push(stream)) {
    check(event.data.find('\n') == event.data.npos);
    if (event.data == "[DONE]") continue;
    const Value value = text::parse_json(event.data, "event");
    check(event.type.empty() || *value.find("type") == Value(event.type));
    api.add_event(streamed, event, value);
  }
  check(streamed == whole);
  return 0;
}
