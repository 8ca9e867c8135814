// What a model is made of, wherever that lies: in the files of a checkpoint, or in this program, which was cut for one. The build
// links one of both: engine/checkpoint_parts.cpp or cut/gem_parts.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "decode/generation_config.hpp"
#include "engine/drafting.hpp"
#include "engine/media.hpp"
#include "link/link.hpp"
#include "link/manifest.hpp"
#include "text/chat.hpp"
#include "text/grammar_vocabulary.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::engine {

struct ModelOptions {
  std::string folder;
  link::Options link{};
  std::optional<link::Numeric> numeric{};  // the model's usual one when not given
  std::int32_t image_tokens = 0;           // the most soft tokens of a picture, one of media::kBudgets; 0 = the checkpoint's own
  DraftOptions draft{};
  std::function<void(const std::string&)> notice{};  // what did not work and was not asked for; null = nobody is told
  std::function<void(const char*)> stage{};          // what is being loaded, as it begins; null = nobody is told

  void begin_stage(const char* name) const {
    if (stage) stage(name);
  }
};

struct Parts {
  using MakeVocabulary = std::function<std::shared_ptr<const text::Vocabulary>(const text::Tokenizer&)>;

  link::Program program;
  text::Tokenizer tokenizer;
  text::Template chat_template;
  decode::GenerationDefaults defaults;
  std::int32_t image_tokens = 0;  // the most of a picture
  MakeVocabulary make_vocabulary, make_call_vocabulary;
};
Parts open_parts(const ModelOptions& options);

// A model and, where one is found, its assistant, linked: all that can be known of it before it runs.
link::Program open_program(const ModelOptions& options);

bool has_tokenizer(const std::string& folder);
text::Tokenizer open_tokenizer(const std::string& folder);
std::size_t vocabulary_bytes(const text::Tokenizer& tokenizer);  // the most that a grammar's takes

// What the model's files say: the most soft tokens of a picture, and the ids that announce them.
std::int32_t image_budget(const std::string& folder);
SoftIds soft_ids(const std::string& folder);

// What this program was cut for; null where it takes any model.
const link::Manifest* gem();

}  // namespace lapidary::engine
