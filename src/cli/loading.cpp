#include "cli/loading.hpp"

#include <cstdio>
#include <string>
#include <vector>

#include "cli/progress.hpp"
#include "cli/size_text.hpp"
#include "cpu/backend.hpp"
#include "cpu/cores.hpp"
#include "cpu/processor.hpp"

namespace lapidary::cli {
namespace {

struct Stage {
  std::string name;
  engine::Clock::time_point begin;
};

void tell(const char* what, const std::string& chosen, const std::string& because = "") {
  std::fprintf(stderr, "%-12s %s%s\n", what, chosen.c_str(), because.empty() ? "" : (" (" + because + ")").c_str());
}

std::string seconds_text(engine::Clock::time_point begin, engine::Clock::time_point end) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", std::chrono::duration<double>(end - begin).count());
  return text;
}

void tell_drafts(const engine::Model& model) {
  const engine::DraftOptions& asked = model.draft;
  const auto drafters = model.drafters();
  for (const engine::Model::Drafter& drafter : drafters)
    tell(drafter.name, drafter.origin->folder, engine::gem() ? "was cut with it" : asked.drafters.empty() ? "lies beside the model" : "--draft-model");
  if (drafters.empty()) tell("drafter", "none", asked.wants_assistant() || asked.wants_dflash() ? "none that fits lies beside the model" : "--draft-kind");
  std::string sources;
  for (std::size_t i = 0; i < model.speculation.source_count(); ++i)
    sources += (i ? ", " : "") + std::string(model.speculation.source_name(i));
  tell("drafts", sources.empty() ? "none" : "by " + sources + ", " + (asked.tokens ? std::to_string(*asked.tokens) + " per round" : "as many per round as pay"));
}

void tell_choices(const EngineFlags& flags, const engine::Model& model, const std::vector<Stage>& stages) {
  const link::Program& program = model.program;
  const link::MemoryPlan& plan = program.plan;
  const ModelFlags& asked = flags.model;
  tell("model", program.target.folder, engine::gem() ? "this program was cut for it" : asked.checkpoint.empty() ? "comes with lapidary; --model takes another" : "--model " + asked.checkpoint);
  tell("graph", std::string(program.graph->name), "has the shape of its config");
  tell("backend", std::string(program.backend->name), program.backend == link::backends().front() ? "first of this build" : "--backend");
  tell("numeric", std::string(name_of(program.numeric)), asked.numeric ? "--numeric" : "usual for a model of this size");
  if (program.backend == &cpu::kBackend) {
    tell("processor", cpu::processor_name());
    tell("instructions", asked.backend_flags.instructions.taken_by(program.numeric).text());
    tell("threads", std::to_string(plan.threads), plan.threads == cpu::default_threads() ? "one per core that the process may use" : "--threads");
  }
  tell("K/V", std::string(plan.kv_format.name) + ", " + size_text(plan.kv_bytes) + " for " + std::to_string(plan.context_tokens) + " tokens");
  tell_drafts(model);
  tell("memory", size_text(plan.weights_mapped_bytes) + " of mapped weights, " + size_text(plan.anonymous_bytes()) + " besides");
  std::string times;
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    times += (i ? ", " : "") + stages[i].name + " " + seconds_text(stages[i].begin, stages[i + 1].begin);
  tell("loaded in", seconds_text(stages.front().begin, stages.back().begin), times);
}

}  // namespace

void EngineFlags::add_to(CLI::App& command) {
  model.add_option_to(command);
  draft.add_to(command);
  auto* silent = command.add_flag("--quiet", quiet, "do not show on a terminal how far loading or a long prompt is");
  command.add_flag("--verbose", verbose, "say on standard error what was chosen and why: model, backend, instructions, threads, K/V, "
                                         "drafts, memory, load times")->excludes(silent);
}

std::unique_ptr<engine::Model> EngineFlags::load() const {
  StatusLine line(quiet);
  std::vector<Stage> stages;
  engine::ModelOptions options = model.options_with(draft);
  options.stage = [&](const char* name) {
    stages.push_back({name, engine::Clock::now()});
    line.show(std::string("loading: ") + name);
  };
  options.notice = [&, notice = options.notice](const std::string& text) {
    line.clear();
    notice(text);
  };
  auto loaded = std::make_unique<engine::Model>(options);
  stages.push_back({"ready", engine::Clock::now()});
  line.clear();
  if (verbose) tell_choices(*this, *loaded, stages);
  return loaded;
}

}  // namespace lapidary::cli
