// lapidary logits: what the model computes, in a form that can be compared with any other engine.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/backend.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/id_prompts.hpp"
#include "cli/model.hpp"
#include "decode/session.hpp"

namespace lapidary::cli {
namespace {

struct LogitsFlags {
  ModelFlags model;
  std::string ids_file;
  std::string output;
  bool hidden = false, soft = false;
  int greedy = 0;
};

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

// What the towers made of its files, for the output too where that is wanted.
Perceived perceive_files(const link::Program& program, link::Executor& executor, const LogitsFlags& flags, const IdPrompt& prompt,
                         const std::string& folder, const std::string& name, Results& results) {
  return perceive(program, executor, prompt, folder, [&](const std::string& label, std::size_t tokens, const std::vector<float>& tower, const std::vector<float>& soft) {
    if (!flags.soft) return;
    const auto add = [&](const char* which, const std::vector<float>& values) {
      const auto out = results.add<float>(name + "." + label + which, DType::f32,
                                          {static_cast<std::int64_t>(tokens), static_cast<std::int64_t>(values.size() / tokens)});
      std::ranges::copy(values, out.begin());
    };
    if (!tower.empty()) add(".tower", tower);
    add(".soft", soft);
  });
}

void run_prompt(const link::Program& program, link::Executor& executor, const LogitsFlags& flags, const IdPrompt& prompt,
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
  session.prefill_all(prompt.ids, observer, perceived.soft_tokens());
  if (flags.greedy) {
    const auto tokens = decode::greedy(session, flags.greedy);
    const auto out = results.add<std::int32_t>(name + ".greedy", DType::i32, {flags.greedy});
    std::copy(tokens.begin(), tokens.end(), out.begin());
    for (const std::int32_t token : tokens) std::printf("%d ", token);
    std::printf("\n");
  }
}

void run(LogitsFlags flags) {
  const std::vector<IdPrompt> prompts = read_id_prompts(flags.ids_file);
  const std::string folder = folder_of(flags.model.checkpoint);
  make_room(flags.model, prompts, folder, flags.greedy);
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
  add_path(*command, "--ids", flags->ids_file, "FILE", kIdPromptsHelp)->required();
  add_path(*command, "-o,--output", flags->output, "FILE", "file to write: prompt<i>.logits, prompt<i>.greedy, ...")->required();
  command->add_flag("--hidden", flags->hidden, "also the residual stream after each layer and the final norm");
  command->add_flag("--soft", flags->soft, "also what the towers made of images and audio: prompt<i>.image<j>.tower, .soft, ...");
  add_number(*command, "--greedy", flags->greedy, 0, INT32_MAX, "also this many greedy tokens after each prompt, printed too", "0");
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
