// Messages and tools to the prompt a Gemma 4 model was trained on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::text {

// Which generation prompt a model expects when thinking is off.
enum class Family : std::uint8_t {
  large,  // 12B, 26B-A4B, 31B: an empty thought
  small,  // E2B, E4B: nothing
};

// Template revisions in circulation; a checkpoint may carry an older one in chat_template.jinja.
enum class Revision : std::uint8_t { april, may, canonical };

struct Template {
  Family family = Family::large;
  Revision revision = Revision::canonical;
};

// The template a checkpoint's files ask for: by its chat_template.jinja (or the one inside tokenizer_config.json) where
// recognised, else by what the model is.
Template choose_template(const std::string& folder, bool per_layer_embeddings);

struct RenderOptions {
  bool add_generation_prompt = true;
  bool enable_thinking = false;
  bool preserve_thinking = false;
};

// messages: list of {role, content, reasoning?, tool_calls?, tool_responses?, tool_call_id?, name?} as in the OpenAI API;
// tools: list of {type: "function", function: {...}}, or null. The template's own markers are in spans that recognise
// special tokens; everything a message or tool brought is in spans that do not.
std::vector<Span> render(const Value& messages, const Value& tools, const Template& with, const RenderOptions& options);

// The messages of a conversation that can be answered: text and places of media, of known roles. Arguments of calls that are JSON in a
// string, as the OpenAI API has them, become objects.
Value checked_messages(const Value& messages);

// The spans as one string, as a template engine would print it.
std::string joined(std::span<const Span> spans);

// Did the prompt open a thought for the model to go on with? The output parser must know.
bool ends_inside_thought(std::span<const Span> prompt);

}  // namespace lapidary::text
