#include "cli/id_prompts.hpp"

#include <algorithm>

#include "cli/input.hpp"
#include "engine/media.hpp"
#include "engine/parts.hpp"

namespace lapidary::cli {
namespace {

constexpr char kPromptsExpected[] =
    "expected a list of prompts, each a list of token ids or an object with ids, images, audio and image_tokens";

std::vector<std::int32_t> read_ids(const text::Value& list, const std::string& path) {
  if (!list.array()) fail(ErrorKind::wrong_type, path, kPromptsExpected);
  std::vector<std::int32_t> ids;
  for (const text::Value& value : *list.array()) {
    const std::int64_t* id = value.integer();
    if (!id || *id < 0 || *id > INT32_MAX) fail(ErrorKind::wrong_type, path, "token id, expected a whole number from 0 to 2147483647");
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  if (ids.empty()) fail(ErrorKind::bad_value, path, "prompt, expected at least one token id, got none");
  return ids;
}

std::vector<std::string> read_files(const text::Value& list, const std::string& path, const std::string& name) {
  std::vector<std::string> files;
  const std::string expected = name + ", expected a list of files, got " + text::to_json(list);
  if (!list.array()) fail(ErrorKind::wrong_type, path, expected);
  for (const text::Value& file : *list.array()) {
    if (!file.string()) fail(ErrorKind::wrong_type, path, expected);
    files.push_back(*file.string());
  }
  return files;
}

IdPrompt read_prompt(const text::Value& entry, const std::string& path) {
  if (!entry.object()) return {.ids = read_ids(entry, path)};
  IdPrompt prompt;
  for (const auto& [name, value] : *entry.object()) {
    if (name == "ids") prompt.ids = read_ids(value, path);
    else if (name == "images") prompt.images = read_files(value, path, name);
    else if (name == "audio") prompt.audio = read_files(value, path, name);
    else if (name == "image_tokens" && value.integer()) {
      prompt.image_tokens = static_cast<std::int32_t>(std::clamp<std::int64_t>(*value.integer(), 0, INT32_MAX));
      engine::check_image_budget(prompt.image_tokens, path);
    } else fail(ErrorKind::bad_value, path, "prompt, expected ids, images, audio and a whole number as image_tokens, got " + name + ": " + text::to_json(value));
  }
  if (prompt.ids.empty()) fail(ErrorKind::missing_key, path, "prompt, expected ids, got none");
  return prompt;
}

// The most soft tokens of a picture of it; `folder`: of the checkpoint.
std::int32_t image_budget_of(const IdPrompt& prompt, const std::string& folder) {
  return prompt.image_tokens ? prompt.image_tokens : engine::image_budget(folder);
}

// Files in the order of their places among the ids, each kind for itself.
class Files {
 public:
  Files(const std::vector<std::string>& paths, const char* kind) : paths_(paths), kind_(kind) {}

  // The next: its path and, for the output, its name.
  std::pair<std::string, std::string> take() {
    if (used_ == paths_.size()) reject("another one for the places of its soft tokens, got no more");
    const std::string name = kind_ + std::to_string(used_);
    return {paths_[used_++], name};
  }
  void end() const {
    if (used_ < paths_.size()) reject("places of soft tokens for each, got none for " + paths_[used_]);
  }

 private:
  [[noreturn]] void reject(const std::string& expected) const { fail(ErrorKind::bad_value, "--ids", kind_ + " files, expected " + expected); }

  const std::vector<std::string>& paths_;
  const std::string kind_;
  std::size_t used_ = 0;
};

}  // namespace

std::vector<IdPrompt> read_id_prompts(const std::string& path) {
  const text::Value list = read_json_input(path);
  if (!list.array()) fail(ErrorKind::wrong_type, path, kPromptsExpected);
  std::vector<IdPrompt> prompts;
  for (const text::Value& entry : *list.array()) prompts.push_back(read_prompt(entry, path));
  return prompts;
}

void make_room(ModelFlags& model, const std::vector<IdPrompt>& prompts, const std::string& folder, std::int32_t more_tokens) {
  std::size_t longest = 1;
  for (const IdPrompt& prompt : prompts) {
    longest = std::max(longest, prompt.ids.size());
    if (!prompt.images.empty()) model.image_tokens = std::max(model.image_tokens, image_budget_of(prompt, folder));
  }
  if (!model.options.context_tokens) model.options.context_tokens = static_cast<std::int32_t>(longest) + more_tokens;
}

Perceived perceive(const link::Program& program, link::Executor& executor, const IdPrompt& prompt, const std::string& folder,
                   const SeeFile& see) {
  if (prompt.images.empty() && prompt.audio.empty()) return {};
  const graph::Graph& graph = *program.graph;
  const std::vector<engine::SoftRun> runs = engine::soft_runs(prompt.ids, engine::soft_ids(folder));
  Files images(prompt.images, "image"), audio(prompt.audio, "audio");
  Perceived perceived;
  engine::Percepts percepts;
  for (const engine::SoftRun& run : runs) {
    const bool is_image = run.sense == graph::Sense::vision;
    const auto [path, label] = (is_image ? images : audio).take();
    const std::string bytes = read_input(path);
    const auto file = std::as_bytes(std::span(bytes));
    const engine::Medium medium = is_image ? engine::Medium::image(graph, file, path, image_budget_of(prompt, folder)) : engine::Medium::audio(graph, file, path);
    percepts.push_back(medium.percepts.front());
    std::vector<float> tower;
    perceived.soft.push_back(engine::perceive(graph, executor, *percepts.back(), &tower));
    if (see) see(label, static_cast<std::size_t>(percepts.back()->soft_tokens), tower, perceived.soft.back());
  }
  images.end();
  audio.end();
  perceived.blocks = engine::blocks_of(runs, percepts);
  perceived.rows.assign(perceived.soft.begin(), perceived.soft.end());
  return perceived;
}

}  // namespace lapidary::cli
