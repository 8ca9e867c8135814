// lapidary logits: what the model computes, in a form that can be compared with any other engine.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/backend.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/model.hpp"
#include "decode/session.hpp"
#include "engine/media.hpp"

namespace lapidary::cli {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string ids_file;
  std::string output;
  bool hidden = false, soft = false;
  int greedy = 0;
};

// Token ids, and files for the places of soft tokens among them.
struct Prompt {
  std::vector<std::int32_t> ids;
  std::vector<std::string> images{}, audio{};
  std::int32_t image_tokens = 0;  // 0 = the checkpoint's own
};

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

Prompt read_prompt(const text::Value& entry, const std::string& path) {
  if (!entry.object()) return {.ids = read_ids(entry, path)};
  Prompt prompt;
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

std::vector<Prompt> read_prompts(const std::string& path) {
  const text::Value list = read_json_input(path);
  if (!list.array()) fail(ErrorKind::wrong_type, path, kPromptsExpected);
  std::vector<Prompt> prompts;
  for (const text::Value& entry : *list.array()) prompts.push_back(read_prompt(entry, path));
  return prompts;
}

// Tensors under construction, with the bytes they own.
class Results {
 public:
  template <class T>
  std::span<T> add(std::string name, DType type, std::vector<std::int64_t> shape) {
    std::size_t count = 1;
    for (const auto d : shape) count *= static_cast<std::size_t>(d);
    auto* data = reinterpret_cast<T*>(storage_.emplace_back(std::make_unique<std::byte[]>(count * sizeof(T))).get());
    tensors_.push_back({std::move(name), {type, std::move(shape), std::as_bytes(std::span(data, count))}});
    return {data, count};
  }
  std::span<const NamedTensor> tensors() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> storage_;
  std::vector<NamedTensor> tensors_;
};

// What the towers made of a prompt's files.
struct Perceived {
  std::vector<decode::SoftBlock> blocks{};
  std::vector<std::vector<float>> soft{};       // by block
  std::vector<std::span<const float>> rows{};   // the same
};

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

std::int32_t budget_of(const Prompt& prompt, const std::string& folder) {
  return prompt.image_tokens ? prompt.image_tokens : engine::image_budget(folder);
}

Perceived perceive_files(const link::Program& program, link::Executor& executor, const LogitsFlags& flags, const Prompt& prompt,
                         const std::string& folder, const std::string& name, Results& results) {
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
    const engine::Medium medium = is_image ? engine::Medium::image(graph, file, path, budget_of(prompt, folder)) : engine::Medium::audio(graph, file, path);
    percepts.push_back(medium.percepts.front());
    std::vector<float> tower;
    perceived.soft.push_back(engine::perceive(graph, executor, *percepts.back(), &tower));
    if (!flags.soft) continue;
    const auto add = [&](const char* which, const std::vector<float>& values) {
      const auto tokens = static_cast<std::int64_t>(percepts.back()->soft_tokens);
      const auto out = results.add<float>(name + "." + label + which, DType::f32, {tokens, static_cast<std::int64_t>(values.size()) / tokens});
      std::ranges::copy(values, out.begin());
    };
    if (!tower.empty()) add(".tower", tower);
    add(".soft", perceived.soft.back());
  }
  images.end();
  audio.end();
  perceived.blocks = engine::blocks_of(runs, percepts);
  perceived.rows.assign(perceived.soft.begin(), perceived.soft.end());
  return perceived;
}

void run_prompt(const link::Program& program, link::Executor& executor, const LogitsFlags& flags, const Prompt& prompt,
                const Perceived& perceived, const std::string& name, Results& results) {
  const graph::Shape& shape = program.graph->shape;
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  decode::Session session(program, executor);
  const auto ids = results.add<std::int32_t>(name + ".input_ids", DType::i32, {length});
  std::ranges::copy(prompt.ids, ids.begin());
  const auto logits = results.add<float>(name + ".logits", DType::f32, {length, shape.vocab});
  std::vector<std::span<float>> layers;
  std::span<float> final_norm;
  if (flags.hidden) {
    for (int l = 0; l < shape.layer_count; ++l)
      layers.push_back(results.add<float>(name + ".layer" + std::to_string(l), DType::f32, {length, shape.hidden}));
    final_norm = results.add<float>(name + ".final_norm", DType::f32, {length, shape.hidden});
  }

  std::size_t chunk_first = 0;
  decode::Session::Observer observer;
  observer.chunk = [&](std::int32_t first) { chunk_first = static_cast<std::size_t>(first); };
  if (flags.hidden)
    observer.step = [&](const link::StepResult& result) {
      if (result.step.tap == graph::kNone) return;
      const std::size_t width = shape.hidden;
      for (std::size_t r = 0; r < result.rows; ++r)
        std::copy_n(result.out[0].floats(r), width, layers[result.step.tap].data() + (chunk_first + r) * width);
    };
  observer.window = [&](std::int32_t first, std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::size_t>(first + i);
      std::copy_n(session.logits(i).data(), shape.vocab, logits.data() + row * shape.vocab);
      if (flags.hidden) std::copy_n(session.hidden(i).data(), shape.hidden, final_norm.data() + row * shape.hidden);
    }
  };
  session.prefill_all(prompt.ids, observer, {perceived.blocks, perceived.rows});
  if (flags.greedy) {
    const auto tokens = decode::greedy(session, flags.greedy);
    const auto out = results.add<std::int32_t>(name + ".greedy", DType::i32, {flags.greedy});
    std::copy(tokens.begin(), tokens.end(), out.begin());
    for (const std::int32_t token : tokens) std::printf("%d ", token);
    std::printf("\n");
  }
}

void run(LogitsFlags flags) {
  const std::vector<Prompt> prompts = read_prompts(flags.ids_file);
  const std::string folder = folder_of(flags.model.checkpoint);
  std::size_t longest = 1;
  for (const Prompt& prompt : prompts) {
    longest = std::max(longest, prompt.ids.size());
    if (!prompt.images.empty()) flags.model.image_tokens = std::max(flags.model.image_tokens, budget_of(prompt, folder));
  }
  if (!flags.model.options.context_tokens)
    flags.model.options.context_tokens = static_cast<std::int32_t>(longest) + flags.greedy;
  const link::Program program = flags.model.load();
  const auto executor = program.backend->make(program);
  Results results;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string name = "prompt" + std::to_string(i);
    const Perceived perceived = perceive_files(program, *executor, flags, prompts[i], folder, name, results);
    run_prompt(program, *executor, flags, prompts[i], perceived, name, results);
  }
  write_safetensors(flags.output, results.tensors());
}

}  // namespace

void add_logits(CLI::App& app) {
  CLI::App* command = app.add_subcommand("logits", "Write the logits of every position to a safetensors file");
  const auto flags = std::make_shared<LogitsFlags>();
  flags->model.add_to(*command);
  add_path(*command, "--ids", flags->ids_file, "FILE", "JSON list of prompts: lists of token ids, or {\"ids\": [...], \"images\": [\"a.png\"], \"audio\": [\"b.wav\"], \"image_tokens\": 70}")->required();
  add_path(*command, "-o,--output", flags->output, "FILE", "file to write: prompt<i>.logits, prompt<i>.greedy, ...")->required();
  command->add_flag("--hidden", flags->hidden, "also the residual stream after each layer and the final norm");
  command->add_flag("--soft", flags->soft, "also what the towers made of images and audio: prompt<i>.image<j>.tower, .soft, ...");
  add_number(*command, "--greedy", flags->greedy, 0, INT32_MAX, "also this many greedy tokens after each prompt, printed too", "0");
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
