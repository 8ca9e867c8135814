// From messages, texts and ids to what the model goes on from.
#include <boost/ut.hpp>

#include <algorithm>

#include "engine/pebble.hpp"

namespace lapidary::test::prompt_test {
namespace {

using namespace boost::ut;
using engine::Prompt;
using engine::Reading;
using Ids = std::vector<std::int32_t>;

text::Value messages_of(std::string_view json) { return text::parse_json(json, "messages"); }

bool begins(const Ids& ids, const Ids& with) { return ids.size() >= with.size() && std::equal(with.begin(), with.end(), ids.begin()); }

const suite<"prompts"> prompts = [] {
  "a text is taken with its special tokens or as nothing but text, ids as they are"_test = [] {
    engine::Model model(pebble_options());
    const std::int32_t bos = *model.tokenizer.special("<bos>"), turn = *model.tokenizer.special("<|turn>");
    const Prompt special = Prompt::of_text(model, "<bos><|turn>user");
    expect(special.ids[0] == bos && special.ids[1] == turn && special.reading == Reading::plain);
    const Prompt plain = Prompt::of_text(model, "<bos><|turn>user", text::Specials::as_text);
    expect(plain.ids.front() == bos && std::ranges::count(plain.ids, bos) == 1 && std::ranges::count(plain.ids, turn) == 0);
    expect(Prompt::of_text(model, "", text::Specials::as_text).ids == Ids{bos});
    expect(Prompt::of_ids({5, 4, 3}).ids == Ids{5, 4, 3} && Prompt::of_ids({5}).reading == Reading::plain && special.marks.empty());
  };

  "up to a mark the ids are those of a conversation that goes no further"_test = [] {
    engine::Model model(pebble_options());
    const text::Value messages = messages_of(R"([{"role":"system","content":"Be brief. <turn|>"},{"role":"user","content":"Hi\n"},
      {"role":"assistant","content":"Hello."},{"role":"user","content":"How is the weather, and 1 + 1?"},
      {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"get_weather","arguments":{"location":"Oslo"}}},
        {"id":"2","type":"function","function":{"name":"add","arguments":{"a":1,"b":1}}}]},
      {"role":"tool","tool_call_id":"1","content":"rain"},{"role":"tool","tool_call_id":"2","content":"2"}])");
    const Prompt whole = Prompt::of_messages(model, messages, pebble_tools(), {});
    expect(fatal(whole.marks.size() == 7u)) << whole.marks.size();  // the system block has the tools; six messages
    expect(std::ranges::adjacent_find(whole.marks, std::greater_equal{}) == whole.marks.end());
    expect(whole.marks.back() <= static_cast<std::int32_t>(whole.ids.size()));
    for (std::size_t i = 0; i < whole.marks.size(); ++i) {
      const auto first = messages.array()->begin();
      const text::Value some = text::Value::Array(first, first + static_cast<std::ptrdiff_t>(i) + 1);
      const auto ids = model.tokenizer.encode(text::render(some, pebble_tools(), model.chat_template, {.add_generation_prompt = false}));
      const Ids prefix(whole.ids.begin(), whole.ids.begin() + whole.marks[i]);
      expect(begins(ids, prefix) && ids.size() <= prefix.size() + 2) << "message" << i;
    }
  };

  "an assistant's text at the end is gone on with, as text"_test = [] {
    engine::Model model(pebble_options());
    const auto prompt_of = [&](std::string_view last, const engine::ChatOptions& options) {
      return Prompt::of_messages(model, messages_of(R"([{"role":"user","content":"Hi"},)" + std::string(last) + "]"), {}, options);
    };
    const auto ids_of = [&](std::string_view end, std::string_view text, bool think = false) {
      const std::string system = think ? "<|turn>system\n<|think|>\n<turn|>\n" : "";
      std::vector<text::Span> spans{{"<bos>" + system + "<|turn>user\nHi<turn|>\n<|turn>model\n" + std::string(end)}, {std::string(text), text::Specials::as_text}};
      return model.tokenizer.encode(spans);
    };
    const std::string empty = "<|channel>thought\n<channel|>", thought = "<|channel>thought\nhm\n<channel|>";
    const Prompt plain = prompt_of(R"({"role":"assistant","content":"It is <turn|> "})", {.continues = true});
    expect(plain.ids == ids_of(empty, "It is <turn|> ") && plain.reading == Reading::answer_in_text && !plain.may_think);
    const Prompt parts = prompt_of(R"({"role":"assistant","content":[{"type":"text","text":"It "},{"type":"text","text":"is"}]})", {.continues = true});
    expect(parts.ids == ids_of(empty, "It is"));
    const Prompt thinking = prompt_of(R"({"role":"assistant","content":"It"})", {.think = true, .continues = true});
    expect(thinking.ids == ids_of("", "It", true) && !thinking.may_think) << "text stands there: no thought can begin";
    for (const bool think : {false, true}) {
      const Prompt thought_of = prompt_of(R"({"role":"assistant","reasoning":"hm","content":"It"})", {.think = think, .continues = true});
      expect(thought_of.ids == ids_of(thought, "It", think)) << think;
    }
    const Prompt nothing = prompt_of(R"({"role":"assistant","content":""})", {.think = true, .continues = true});
    expect(nothing.ids == ids_of("", "", true) && nothing.reading == Reading::answer && nothing.may_think);

    for (const auto& [last, message] : {std::pair{R"({"role":"user","content":"x"})", "[chat] messages[1].role, expected assistant in a message that is continued, got \"user\""},
                                        {R"({"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f"}}]})",
                                         "[chat] messages[1].tool_calls, expected none in a message that is continued, got some"}}) {
      const auto error = error_of([&] { prompt_of(last, {.continues = true}); });
      expect(error && error->message() == message) << (error ? error->message() : "none");
    }
  };

  "after results the text goes on in the same turn, not in the thought that would be opened"_test = [] {
    engine::Model model(pebble_options());
    const std::string called = R"([{"role":"user","content":"Hi"},
      {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"add","arguments":{"a":1,"b":1}}}]},
      {"role":"tool","tool_call_id":"1","content":"2"})";
    const Prompt opened = Prompt::of_messages(model, messages_of(called + "]"), pebble_tools(), {.think = true});
    expect(fatal(opened.reading == Reading::answer_in_thought));
    const Prompt goes_on = Prompt::of_messages(model, messages_of(called + R"(,{"role":"assistant","content":"It is"}])"), pebble_tools(), {.think = true, .continues = true});
    const auto header = model.tokenizer.encode("<|channel>thought\n"), text = model.tokenizer.encode("It is");
    Ids expected(opened.ids.begin(), opened.ids.end() - static_cast<std::ptrdiff_t>(header.size()));
    expected.insert(expected.end(), text.begin(), text.end());
    expect(goes_on.ids == expected && goes_on.reading == Reading::answer_in_text);
  };

  "an answer that goes on keeps the space before its first word"_test = [] {
    engine::Model model(pebble_options());
    const Prompt prompt = Prompt::of_messages(model, messages_of(R"([{"role":"user","content":"What is the capital of Norway?"},
      {"role":"assistant","content":"The capital of"}])"), {}, {.continues = true});
    engine::AnswerOptions options;
    options.sampling.temperature = 0.0f;
    const auto answer = answered(model, prompt, options, 2);
    expect(answer.content == " Norway is Oslo.") << answer.content;
  };

  "thoughts before earlier calls stay where they are to be preserved"_test = [] {
    engine::Model model(pebble_options());
    const text::Value messages = messages_of(R"([{"role":"user","content":"Hi"},
      {"role":"assistant","reasoning":"deep","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"add","arguments":{"a":1,"b":1}}}]},
      {"role":"tool","tool_call_id":"1","content":"2"},{"role":"user","content":"And?"}])");
    const Prompt without = Prompt::of_messages(model, messages, {}, {.think = true});
    const Prompt with = Prompt::of_messages(model, messages, {}, {.think = true, .preserve_thinking = true});
    expect(with.ids.size() > without.ids.size());
  };
};

}  // namespace
}  // namespace lapidary::test::prompt_test
