#include "engine/prompt.hpp"

#include "checkpoint/error.hpp"
#include "text/chat_fields.hpp"
#include "text/whitespace.hpp"

namespace lapidary::engine {
namespace {

constexpr std::string_view kOpenThought = "<|channel>thought\n", kEmptyThought = "<|channel>thought\n<channel|>";

// A message that the answer goes on with.
struct Continued {
  std::string thought, text;
};

// The last one, taken out of `messages`.
Continued take_continued(text::Value& messages) {
  text::Value::Array all = *messages.array();
  const std::string path = text::item_path("messages", all.size() - 1);
  const text::Value last = std::move(all.back());
  all.pop_back();
  messages = std::move(all);
  const text::Value& role = *last.find("role");
  if (role != text::Value("assistant") && role != text::Value("model"))
    fail(ErrorKind::bad_value, "chat", path + ".role, expected assistant in a message that is continued, got " + text::to_json(role));
  for (const char* field : {"tool_calls", "tool_responses"})
    if (text::truthy_field(last, field)) fail(ErrorKind::bad_value, "chat", path + "." + field + ", expected none in a message that is continued, got some");

  Continued continued;
  const text::Value& content = *last.find("content");
  if (content.string()) continued.text = *content.string();
  else for (const text::Value& part : text::as_array(content, path + ".content")) continued.text += text::string_field(part, "text", path + ".content");
  const text::Value* thought = text::truthy_field(last, "reasoning");
  if (!thought) thought = text::truthy_field(last, "reasoning_content");
  if (thought) continued.thought = text::as_string(*thought, path + ".reasoning");
  return continued;
}

// The generation prompt leaves room for a thought, opens one, or has an empty one: the message's own comes in its place.
void write(const Continued& continued, std::vector<text::Span>& spans) {
  std::string& end = spans.back().text;
  const bool has_thought = !continued.thought.empty();
  if (end.ends_with(kOpenThought)) end.resize(end.size() - kOpenThought.size());
  else if (has_thought && end.ends_with(kEmptyThought)) end.resize(end.size() - kEmptyThought.size());
  if (has_thought) {
    end += kOpenThought;
    spans.push_back({continued.thought, text::Specials::as_text});
    spans.push_back({"\n<channel|>"});
  }
  spans.push_back({continued.text, text::Specials::as_text});
}

// Behind what closes a turn, the results of calls, or calls that results follow. Messages cannot have these ids, only the template has.
std::vector<std::int32_t> marks_of(const text::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto end_turn = tokenizer.special("<turn|>"), end_result = tokenizer.special("<tool_response|>"),
             open_call = tokenizer.special("<|tool_call>"), end_call = tokenizer.special("<tool_call|>");
  std::vector<std::int32_t> marks;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool ends_calls = ids[i] == end_call && (i + 1 == ids.size() || ids[i + 1] != open_call);
    if (ids[i] == end_turn || ids[i] == end_result || ends_calls) marks.push_back(static_cast<std::int32_t>(i) + 1);
  }
  return marks;
}

// With a token for each soft one. Tokenizers may not know that of videos: that of images does as well.
std::vector<text::Span> announce(std::span<const Medium> media, const text::Tokenizer& tokenizer, std::span<const text::Span> spans) {
  constexpr std::string_view kVideo = "<|video|>", kImage = "<|image|>";
  static_assert(kVideo.size() == kImage.size());
  std::vector<text::Media> announced;
  for (const Medium& medium : media) announced.push_back(medium.announced());
  std::vector<text::Span> expanded = text::expand_placeholders(spans, announced);
  if (tokenizer.special(kVideo)) return expanded;
  for (text::Span& span : expanded)
    for (std::size_t at = 0; span.specials == text::Specials::recognise && (at = span.text.find(kVideo, at)) != std::string::npos;)
      span.text.replace(at, kVideo.size(), kImage);
  return expanded;
}

}  // namespace

Prompt Prompt::of_messages(const Model& model, const text::Value& messages, const text::Value& tools, const ChatOptions& options,
                           std::span<const Medium> media) {
  text::Value checked = text::checked_messages(messages);
  const Continued continued = options.continues ? take_continued(checked) : Continued{};
  const bool goes_on = !continued.text.empty() || !continued.thought.empty();  // else the answer is still to begin
  std::vector<text::Span> spans = text::render(checked, tools, model.chat_template,
                                               {.enable_thinking = options.think, .preserve_thinking = options.preserve_thinking});
  // The template closes a turn with text, call and result and opens no other for the answer.
  if (text::joined(spans).ends_with("<turn|>\n")) spans.push_back({"<|turn>model\n"});
  if (goes_on) write(continued, spans);
  spans = announce(media, model.tokenizer, spans);
  Prompt prompt{.ids = model.tokenizer.encode(spans), .percepts = percepts_of(media)};
  if (!media.empty()) {
    prompt.blocks = blocks_of(soft_runs(prompt.ids, SoftIds::of(model.tokenizer)), prompt.percepts);
    check_sizes(model.program, prompt.blocks);
  }
  prompt.marks = marks_of(model.tokenizer, prompt.ids);
  prompt.reading = !text::strip(continued.text).empty() ? Reading::answer_in_text
                   : text::ends_inside_thought(spans)   ? Reading::answer_in_thought
                                                        : Reading::answer;
  prompt.may_think = options.think && !goes_on;
  return prompt;
}

Prompt Prompt::of_text(const Model& model, std::string_view text, text::Specials specials) {
  Prompt prompt{.ids = model.tokenizer.encode(text, specials)};
  const std::int32_t bos = required_special(model.tokenizer, "<bos>");
  if (prompt.ids.empty() || prompt.ids.front() != bos) prompt.ids.insert(prompt.ids.begin(), bos);
  return prompt;
}

}  // namespace lapidary::engine
