// A model ready to turn text into text, and the flags that say which one.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/model.hpp"
#include "decode/generation_config.hpp"
#include "decode/session.hpp"
#include "text/chat.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::cli {

struct EngineFlags {
  ModelFlags model;
  DraftFlags draft;

  void add_to(CLI::App& command);
};

using Clock = std::chrono::steady_clock;

struct Engine {
  explicit Engine(const EngineFlags& flags);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::string assistant() const { return program.assistant ? program.assistant->folder() : ""; }
  const FileHashes& assistant_hashes() const;  // computed when first asked for

  const Clock::time_point start;  // loading begins with the first member
  link::Program program;
  text::Tokenizer tokenizer;
  text::Template chat_template;
  decode::GenerationDefaults defaults;
  std::unique_ptr<link::Executor> executor;
  decode::Session session;
  decode::Speculation speculation;
  double load_seconds;

 private:
  mutable std::optional<FileHashes> hashes_;
};

// Adds to the plan what text needs beside the model: the tokenizer, a grammar's vocabulary, whether there will be a grammar or not,
// and what drafts are made from. Refuses a plan that is above its limit then.
void count_text(link::MemoryPlan& plan, const text::Tokenizer& tokenizer, const DraftFlags& draft);

// The id of a special token the model cannot do without.
std::int32_t required_special(const text::Tokenizer& tokenizer, const char* name);

}  // namespace lapidary::cli
