#include "cli/model.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string_view>

#include "checkpoint/own_path.hpp"
#include "cli/backend.hpp"
#include "cli/flags.hpp"
#include "cpu/cores.hpp"

namespace lapidary::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::optional<std::string> find_pebble() {
  for (fs::path folder = own_path().parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    for (const char* place : {"share/lapidary/models/pebble", "models/pebble"})
      if (is_checkpoint(folder / place)) return folder / place;
  return std::nullopt;
}

std::string default_model() {
  const auto pebble = find_pebble();
  if (!pebble)
    fail(ErrorKind::io, "--model", "expected a checkpoint folder, got none and pebble is not installed beside " + own_path().string());
  return *pebble;
}

void ModelFlags::add_to(CLI::App& command) {
  CLI::Option* option = add_path(command, "CHECKPOINT,-m,--model", checkpoint, "MODEL", kModelHelp)->required(!engine::gem());
  if (engine::gem()) option->group("");  // it has one
  add_limits_to(command);
}

void ModelFlags::add_option_to(CLI::App& command) {
  CLI::Option* option = add_path(command, "-m,--model", checkpoint, "MODEL", std::string(kModelHelp) + " (default: pebble)");
  if (engine::gem()) option->group("");
  add_limits_to(command);
}

void ModelFlags::add_limits_to(CLI::App& command) {
  add_number(command, "-c,--context,--ctx-size", options.context_tokens, 1, INT32_MAX, "tokens to reserve K/V for",
             "4096, or the model's limit where that is less");
  add_number(command, "--chunk", options.chunk_rows, 1, INT32_MAX, "prompt tokens per pass", "the graph's, which is the most");
  std::vector<std::string> names;
  for (const link::Backend* backend : link::backends()) names.emplace_back(backend->name);
  add_choice(command, "--backend", names,
             [this](const std::string& name) { options.backend = *std::ranges::find(link::backends(), name, &link::Backend::name); },
             "what runs the model (default: " + std::string(options.backend->name) + ")");
  backend_flags.instructions.add_to(command);
  static const int kThreads = cpu::default_threads();  // many files are read for it
  options.threads = kThreads;
  add_number(command, "-t,--threads", options.threads, 1, cpu::kMaxThreads, "how many compute", "one per core that the process may use");
  add_choice(command, "--numeric", {"exact", "fast"},
             [this](const std::string& name) { numeric = name == "exact" ? link::Numeric::exact : link::Numeric::fast; },
             "exact: float32 activations and K/V; fast: activations of 8 bits where weights are integers times a scale, K/V in "
             "bfloat16 (default: fast; exact for models below 100 million weights, such as pebble)");
  std::vector<std::string> kinds = {"auto"};
  for (const link::KvFormat* format : link::kKvFormats) kinds.emplace_back(format->name);
  CLI::Option* kv = add_choice(command, "--kv", kinds, [this](const std::string& name) {
    const auto found = std::ranges::find(link::kKvFormats, name, [](const link::KvFormat* format) { return format->name; });
    options.kv = found == std::end(link::kKvFormats) ? nullptr : *found;
  }, "how layers that keep every position store K/V: q8 for long contexts, q4 for the longest, at some loss (default: auto, float32 in "
     "the exact mode and bfloat16 in the fast one)");
  command.add_flag_callback("--turbo-kv", [this] { options.kv = &link::kKvQ8; }, "the same as --kv q8")->excludes(kv);
  backend_flags.add_latency_to(command);
  command.add_option_function<std::string>(
             "--memory", [this](const std::string& text) { options.memory_limit_bytes = parse_bytes("--memory", text); },
             "refuse to use more anonymous memory than this: 900000, 512M, 8G or 1.5GB (default: no limit)")
      ->type_name("BYTES");
}

std::string folder_of(const std::string& model) {
  if (const link::Manifest* gem = engine::gem()) {
    if (!model.empty())
      fail(ErrorKind::usage, "--model", "expected nothing, this program was cut for " + std::string(gem->target.folder) + ", got " + model);
    return "";
  }
  return model.empty() ? default_model() : engine::find_checkpoint(model, engine::Places::of_environment(), "--model");
}

engine::ModelOptions ModelFlags::options_with(const DraftFlags& draft) const {
  backend_flags.check(*options.backend);
  draft.check();
  engine::ModelOptions all{.folder = folder_of(checkpoint), .link = options, .numeric = numeric, .image_tokens = image_tokens,
                           .draft = draft.options,
                           .notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }};
  all.link.backend_options = backend_flags.options();
  for (std::string& drafter : all.draft.drafters)
    drafter = engine::find_checkpoint(drafter, engine::Places::of_environment(), "--draft-model");
  return all;
}

link::Program ModelFlags::load() const {
  DraftFlags none;
  none.options.kind = engine::DraftKind::none;
  return load(none);
}

}  // namespace lapidary::cli
