// What the model goes on from: the one way from messages, or from a text, to tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/media.hpp"
#include "engine/model.hpp"
#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::engine {

// How the output is read: as an answer with thoughts and calls, from its start or from inside a part of it, or as plain text.
enum class Reading { plain, answer, answer_in_thought, answer_in_text };

struct ChatOptions {
  bool think = false;
  bool preserve_thinking = false;  // thoughts before earlier calls stay, as text::RenderOptions has it
  // The last message is the assistant's, and the answer goes on with its text. What it reasoned is the thought before that text, thinking
  // on or off; calls it must not have.
  bool continues = false;
};

struct Prompt {
  std::vector<std::int32_t> ids;
  Reading reading = Reading::plain;
  bool may_think = false;  // the output may begin with a thought
  // How many ids there are up to the end of the system block and of every message, ascending. A special token stands before each, so
  // that nothing that follows changes an id before it. None of a text.
  std::vector<std::int32_t> marks{};
  std::vector<decode::SoftBlock> blocks{};  // of soft tokens among the ids
  Percepts percepts{};                      // by block: what they are made of

  // `messages` and `tools` as text::render() takes them. The k-th of `media` belongs to the k-th part of the messages that is an image, audio or
  // a video.
  static Prompt of_messages(const Model& model, const text::Value& messages, const text::Value& tools, const ChatOptions& options,
                            std::span<const Medium> media = {});
  // The text as it is, without a chat template, behind <bos>.
  static Prompt of_text(const Model& model, std::string_view text, text::Specials specials = text::Specials::recognise);
  // As they are.
  static Prompt of_ids(std::vector<std::int32_t> ids) { return {.ids = std::move(ids)}; }
};

}  // namespace lapidary::engine
