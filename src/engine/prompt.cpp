#include "engine/prompt.hpp"

namespace lapidary::engine {

Prompt Prompt::of_messages(const Model& model, const text::Value& messages, const text::Value& tools, bool think) {
  std::vector<text::Span> spans = text::render(text::checked_messages(messages), tools, model.chat_template, {.enable_thinking = think});
  // The template closes a turn with text, call and result and opens no other for the answer.
  if (text::joined(spans).ends_with("<turn|>\n")) spans.push_back({"<|turn>model\n"});
  return {model.tokenizer.encode(spans),
          text::ends_inside_thought(spans) ? Reading::answer_in_thought : Reading::answer, think};
}

Prompt Prompt::of_text(const Model& model, std::string_view text) {
  Prompt prompt{model.tokenizer.encode(text), Reading::plain, false};
  const std::int32_t bos = required_special(model.tokenizer, "<bos>");
  if (prompt.ids.empty() || prompt.ids.front() != bos) prompt.ids.insert(prompt.ids.begin(), bos);
  return prompt;
}

}  // namespace lapidary::engine
