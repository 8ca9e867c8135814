// lapidary cut: a program for one checkpoint.
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>

#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/model.hpp"
#include "cli/progress.hpp"
#include "cli/sampling.hpp"
#include "cli/settings.hpp"
#include "cli/size_text.hpp"
#include "cut/cut.hpp"

namespace lapidary::cli {
namespace {

struct CutFlags {
  ModelFlags model;
  DraftFlags draft;
  SamplingFlags sampling;
  cut::CutOptions options;
  std::int32_t max_tokens = 0;  // only told to the program
  bool is_static = false, library = false, list_kernels = false;
};

// The flags of this command that the program will have as its defaults.
std::vector<std::pair<std::string, std::string>> defaults_of(const CLI::App& command) {
  std::vector<std::pair<std::string, std::string>> defaults;
  for (const char* setting : settings()) {
    if (const std::string_view name = setting; name == "model" || name == "draft-model") continue;
    const CLI::Option* option = command.get_option_no_throw(std::string("--") + setting);
    if (option && option->count() > 0) defaults.emplace_back(setting, option->results().back());
  }
  return defaults;
}

void list_kernels(const link::Program& program) {
  std::map<std::string, int> counts;
  using graph::SegmentId;
  for (const SegmentId id : {SegmentId::forward, SegmentId::head, SegmentId::select, SegmentId::draft, SegmentId::catch_up, SegmentId::block}) {
    if (!program.drafters().runs(id)) continue;
    for (const graph::Step& step : program.graph->segment(id).steps) {
      if (!link::runs(program, step)) continue;
      std::string text = variant_of(program, step);
      for (const graph::WeightId weight : step.weights) {
        if (weight == graph::kNone || !program.matrices[weight].values) continue;
        const link::Matrix& matrix = program.matrices[weight];
        text += " " + std::to_string(matrix.rows) + "x" + std::to_string(matrix.cols);
      }
      ++counts[text];
    }
  }
  for (const auto& [kernel, count] : counts) std::cout << kernel << ", " << count << (count == 1 ? " step\n" : " steps\n");
}

// A bar that grows, and is only drawn anew when it does.
cut::Layout::Progress bar_on(StatusLine& line) {
  return [&line, marks = std::uint64_t{0}](std::uint64_t done, std::uint64_t all) mutable {
    constexpr std::uint64_t kMarks = 20;
    if (done * kMarks / all == marks) return;
    marks = done * kMarks / all;
    line.show("writing [" + std::string(marks, '#') + std::string(kMarks - marks, '.') + "] " + size_text(static_cast<std::size_t>(done)) + " of " +
              size_text(static_cast<std::size_t>(all)));
  };
}

cut::Product product_of(const CutFlags& flags) {
  if (flags.library) return flags.is_static ? cut::Product::static_library : cut::Product::shared_library;
  return flags.is_static ? cut::Product::static_program : cut::Product::program;
}

}  // namespace

void add_cut(CLI::App& app) {
  CLI::App* command = app.add_subcommand("cut", "Make a program for one checkpoint, with everything decided that can be known of it");
  const auto flags = std::make_shared<CutFlags>();
  flags->model.add_to(*command);
  flags->draft.add_to(*command, ",--assistant");
  flags->sampling.add_to(*command);
  add_number(*command, "-n,--max-tokens", flags->max_tokens, 1, INT32_MAX, "tokens of an answer", "as lapidary");
  add_choice(*command, "--weights", {"embed", "beside", "mapped"},
             [flags](const std::string& name) {
               flags->options.weights = name == "embed" ? cut::Weights::embed : name == "beside" ? cut::Weights::beside : cut::Weights::mapped;
             },
             "embed: in the program itself; beside: in GEM.weights; mapped: where they are (default: beside)");
  add_path(*command, "-o,--output", flags->options.output, "GEM", "the program to make (default: gem)");
  command->add_flag("--library", flags->library, "a shared library with the C API in place of a program; with --static, a static one");
  command->add_flag("--static", flags->is_static, "a program that needs nothing of the system but its kernel");
  command->add_option("--compiler", flags->options.compiler, "what to compile with (default: what lapidary was compiled with)")->type_name("NAME");
  command->add_flag("--list-kernels", flags->list_kernels, "only say which kernels a round has, with outputs x inputs of their matrices");
  command->callback([flags, command] {
    cut::CutOptions& options = flags->options;
    options.model = flags->model.options_with(flags->draft);
    if (flags->list_kernels) return list_kernels(engine::open_program(options.model));
    if (options.output.empty()) options.output = flags->library ? flags->is_static ? "libgem.a" : "libgem.so" : "gem";
    options.product = product_of(*flags);
    options.version = LAPIDARY_VERSION;
    options.defaults = defaults_of(*command);
    StatusLine line(false);
    options.model.stage = [&line](const char* name) { line.show(std::string("cutting: ") + name); };
    options.progress = bar_on(line);
    const cut::CutReport report = cut::cut(options);
    line.clear();
    std::fprintf(stderr, "%s: program %s, compiled in %.1f s; model %s, written in %.1f s\n", options.output.c_str(),
                 size_text(static_cast<std::size_t>(report.program_bytes)).c_str(), report.compile_seconds,
                 size_text(static_cast<std::size_t>(report.payload_bytes)).c_str(), report.write_seconds);
  });
}

}  // namespace lapidary::cli
