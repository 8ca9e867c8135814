// A model ready to turn text into text: what all its conversations share.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/places.hpp"
#include "engine/parts.hpp"
#include "link/backend.hpp"
#include "link/executor.hpp"

namespace lapidary::engine {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Adds to the plan what text needs beside the model: the tokenizer, a grammar's vocabulary, whether there will be a grammar or not,
// and what drafts are made from. Refuses a plan that is above its limit then.
void count_text(link::MemoryPlan& plan, const text::Tokenizer& tokenizer, const DraftOptions& draft);

class Model {
 public:
  explicit Model(const ModelOptions& options);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // What it was loaded with to draft.
  struct Drafter {
    const char* name = nullptr;  // "assistant", "dflash"
    const char* kind = nullptr;  // "mtp", "dflash", as sources of drafts are named
    const link::Origin* origin = nullptr;

    std::string_view folder_name() const { return last_part(origin->folder); }
  };
  std::vector<Drafter> drafters() const;
  const link::FileHashes& hashes_of(const Drafter& drafter) const;  // computed when first asked for

  // What grammars read tokens with. Each takes a while to build, at first use; all answers share it.
  std::shared_ptr<const text::Vocabulary> vocabulary() const;
  std::shared_ptr<const text::Vocabulary> call_vocabulary() const;

  const Clock::time_point start;  // loading begins with the first member
  link::Program program;
  const text::Tokenizer tokenizer;
  const text::Template chat_template;
  const decode::GenerationDefaults defaults;
  const std::int32_t image_tokens;  // the most of a picture
  const DraftOptions draft;
  const std::unique_ptr<link::Executor> executor;
  decode::Speculation speculation;  // of all texts
  double load_seconds = 0;

 private:
  friend class Slot;
  Model(Clock::time_point began, Parts parts, const ModelOptions& options);
  void warm_up();
  int take_slot();
  void give_back_slot(int slot);

  const Parts::MakeVocabulary make_vocabulary_, make_call_vocabulary_;
  mutable std::mutex mutex_;  // of what follows
  mutable std::map<std::string_view, link::FileHashes> hashes_;  // by name of a drafter
  mutable std::shared_ptr<const text::Vocabulary> vocabulary_, call_vocabulary_;
  std::vector<bool> taken_;   // by slot
};

// Where a conversation lies in the model's memory: one of plan.sessions. Fails where all are taken.
class Slot {
 public:
  explicit Slot(Model& model) : model_(model), number_(model.take_slot()) {}
  ~Slot() { model_.give_back_slot(number_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  int number() const { return number_; }

 private:
  Model& model_;
  const int number_;
};

// The id of a special token the model cannot do without.
std::int32_t required_special(const text::Tokenizer& tokenizer, const char* name);

}  // namespace lapidary::engine
