#include "cli/model.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>

#if defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include "cli/backend.hpp"
#include "cpu/cores.hpp"

namespace lapidary::cli {
namespace {

namespace fs = std::filesystem;

fs::path own_path() {
#if defined(__APPLE__)
  char path[4096];
  std::uint32_t size = sizeof path;
  return _NSGetExecutablePath(path, &size) == 0 ? fs::canonical(path) : fs::path();
#else
  std::error_code none;
  return fs::read_symlink("/proc/self/exe", none);
#endif
}

std::size_t parse_bytes(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (error != std::errc{} || shift < 0 || value > (SIZE_MAX >> shift))
    fail(ErrorKind::usage, "--memory", "expected bytes such as 900000, 512M or 8G, got '" + text + "'");
  return value << shift;
}

}  // namespace

std::optional<std::string> find_pebble() {
  for (fs::path folder = own_path().parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    for (const char* place : {"share/lapidary/models/pebble", "models/pebble"})
      if (fs::exists(folder / place / "config.json")) return folder / place;
  return std::nullopt;
}

std::string default_model() {
  const auto pebble = find_pebble();
  if (!pebble)
    fail(ErrorKind::io, "--model", "expected a checkpoint folder, got none and pebble is not installed beside " + own_path().string());
  return *pebble;
}

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("CHECKPOINT", checkpoint, kModelHelp)->required();
  add_limits_to(command);
}

void ModelFlags::add_option_to(CLI::App& command) {
  command.add_option("--model", checkpoint, std::string(kModelHelp) + " (default: pebble)");
  add_limits_to(command);
}

void ModelFlags::add_limits_to(CLI::App& command) {
  command.add_option("--context", options.context_tokens, "tokens to reserve K/V for (default 4096, or the model's limit)")
      ->check(CLI::PositiveNumber);
  command.add_option("--chunk", options.chunk_rows, "prompt tokens per pass (default and limit: the graph's)")
      ->check(CLI::PositiveNumber);
  std::set<std::string> names;
  for (const link::Backend* backend : link::backends()) names.emplace(backend->name);
  command.add_option_function<std::string>(
             "--backend",
             [this](const std::string& name) { options.backend = *std::ranges::find(link::backends(), name, &link::Backend::name); },
             "what runs the model (default: " + std::string(options.backend->name) + ")")
      ->check(CLI::IsMember(names));
  backend_flags.instructions.add_to(command);
  options.threads = cpu::default_threads();
  command.add_option("--threads", options.threads, "default: one per core that the process may use")
      ->check(CLI::Range(1, cpu::kMaxThreads));
  command.add_option_function<std::string>(
             "--numeric",
             [this](const std::string& name) { numeric = name == "exact" ? link::Numeric::exact : link::Numeric::fast; },
             "exact: float32 activations and K/V; fast: activations of 8 bits where weights are integers times a scale, K/V in bfloat16 "
             "(default: fast; exact for models below 100 million weights, such as pebble)")
      ->check(CLI::IsMember(std::set<std::string>{"exact", "fast"}));
  backend_flags.add_latency_to(command);
  command.add_option("--memory", memory, "refuse to use more anonymous memory than this, e.g. 8G");
}

std::string ModelFlags::folder() const {
  return checkpoint.empty() ? default_model() : engine::find_checkpoint(checkpoint, engine::Places::of_environment(), "--model");
}

engine::ModelOptions ModelFlags::options_with(const DraftFlags& draft) const {
  backend_flags.check(*options.backend);
  draft.check();
  engine::ModelOptions all{.folder = folder(), .link = options, .numeric = numeric,
                           .draft = draft.options,
                           .notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }};
  all.link.backend_options = backend_flags.options();
  if (!all.draft.assistant.empty())
    all.draft.assistant = engine::find_checkpoint(all.draft.assistant, engine::Places::of_environment(), "--draft-model");
  if (!memory.empty()) all.link.memory_limit_bytes = parse_bytes(memory);
  return all;
}

link::Program ModelFlags::load() const {
  DraftFlags none;
  none.options.kind = engine::DraftKind::none;
  return load(none);
}

}  // namespace lapidary::cli
