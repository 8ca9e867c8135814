// Pictures and sounds become the soft tokens that the reference makes of them, on any number of threads; texts need no tower. Of every
// backend.
#include <boost/ut.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "decode/generate.hpp"
#include "media/picture.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/rows.hpp"
#include "support/soft_prompts.hpp"

namespace lapidary::test::towers_test {
namespace {

using namespace boost::ut;
using graph::Sense;
using link::Percept;

// The CPU. Others have one arithmetic for both modes, and no threads.
bool is_cpu() { return link::backends().front()->computes_here; }

std::vector<link::Numeric> numerics() {
  if (is_cpu()) return {link::Numeric::exact, link::Numeric::fast};
  return {link::Numeric::exact};
}

// What a tower takes, with the memory that it lies in.
struct Taken {
  Sense sense{};
  std::int32_t rows = 0, columns = 1;
  std::vector<float> values;

  Percept percept() const { return {sense, rows, columns, values}; }
};

// At a budget of 70 soft tokens.
Taken picture(const std::string& name, int side) {
  const std::string path = kFixtures + "/images/" + name + ".png";
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const media::Picture whole = media::decode_picture(std::as_bytes(std::span(bytes)), path);
  media::Patches cut = media::patches(media::resized(whole, media::fitted(whole.size, 70)), side);
  return {Sense::vision, cut.rows, cut.columns, std::move(cut.values)};
}

Taken sound(const graph::Tower& tower) {
  const Expected expected(kFixtures + "/audio/expected.safetensors");
  const bool conformer = tower.audio.layer_count > 0;
  Taken taken{Sense::audio, 0, 1, expected.floats(conformer ? "pcm16.mel" : "pcm16.samples")};
  taken.rows = static_cast<std::int32_t>((taken.values.size() + tower.input_width - 1) / tower.input_width);
  taken.values.resize(static_cast<std::size_t>(taken.rows) * tower.input_width);
  return taken;
}

struct Perceived {
  std::vector<float> soft, tower;
};

Perceived perceive(link::Executor& executor, const graph::Tower& tower, const Taken& taken) {
  const auto tokens = static_cast<std::size_t>(tower.soft_tokens(taken.rows, taken.columns));
  Perceived perceived{std::vector<float>(tokens * tower.soft_width), std::vector<float>(tokens * tower.tower_width)};
  executor.perceive(taken.percept(), perceived.soft, perceived.tower);
  return perceived;
}

double worst(const std::vector<float>& got, const std::vector<float>& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double most = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - expected[i]);
    most = std::isnan(off) ? INFINITY : std::max(most, off);
  }
  return most;
}

double largest(const std::vector<float>& values) {
  double most = 0.0;
  for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

struct Golden {
  std::string kind, name;
  Sense sense;
};
const std::vector<Golden> kGoldens = {
    {"dense", "rgb-48x64", Sense::vision},   {"dense", "wide-3x200", Sense::vision}, {"ple", "rgb-48x64", Sense::vision},
    {"ple", "wide-3x200", Sense::vision},    {"ple", "pcm16", Sense::audio},         {"unified", "rgb-48x64", Sense::vision},
    {"unified", "wide-3x200", Sense::vision}, {"unified", "pcm16", Sense::audio},
};

Taken taken_of(const Golden& golden, const graph::Tower& tower) {
  return golden.sense == Sense::vision ? picture(golden.name, tower.vision.patch) : sound(tower);
}

std::string folder_of(const std::string& kind, const std::string& layout = "bf16") { return kFixtures + "/models/" + kind + "-" + layout; }

// Nobody may read a weight of a tower from here on, unless it shares a page with others.
void forbid_towers(const Checkpoint& checkpoint) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::set<std::uintptr_t> towers, others;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const bool is_tower = name.find("vision") != std::string::npos || name.find("audio") != std::string::npos;
    const auto begin = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
    for (std::uintptr_t at = begin / page; at <= (begin + tensor.bytes.size() - 1) / page; ++at) (is_tower ? towers : others).insert(at);
  }
  std::erase_if(towers, [&](std::uintptr_t at) { return others.contains(at); });
  expect(towers.size() > 100u);
  for (const std::uintptr_t at : towers) expect(eq(mprotect(reinterpret_cast<void*>(at * page), page, PROT_NONE), 0));
}

// How a process of its own ends that does this: by a signal, or with 0.
template <class Work>
int signal_of(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would tell of it
    work();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

const suite<"towers"> towers = [] {
  for (const Golden& golden : kGoldens)
    boost::ut::test("soft tokens of " + golden.name + " are those of the reference in " + golden.kind) = [&golden] {
      const Expected expected(kFixtures + "/soft/" + golden.kind + "/expected.safetensors");
      for (const link::Numeric numeric : numerics()) {
        Loaded model(folder_of(golden.kind), {.numeric = numeric});
        const graph::Tower& tower = *model.program.graph->tower(golden.sense);
        const Perceived got = perceive(*model.executor, tower, taken_of(golden, tower));
        const std::vector<float> soft = expected.floats(golden.name + ".soft");
        // What bfloat16 leaves of random weights; the reference rounded so strays as far.
        const double allowed = numeric == link::Numeric::exact ? 0.0005 : 0.05 * largest(soft);
        expect(worst(got.soft, soft) <= allowed) << worst(got.soft, soft) << "of" << largest(soft);
        if (!tower.tower_width) continue;
        const std::vector<float> rows = expected.floats(golden.name + ".tower");
        const double most = numeric == link::Numeric::exact ? 0.0005 : 0.05 * largest(rows);
        expect(worst(got.tower, rows) <= most) << worst(got.tower, rows) << "of" << largest(rows);
      }
    };

  // What is seen and heard here is what the prompt goes on with.
  for (const auto& [kind, name] : {std::pair{"dense", "image"}, {"ple", "image-audio"}, {"unified", "image-audio"}})
    boost::ut::test(std::string("drafts change no byte behind what ") + kind + " perceives") = [kind = kind, name = name] {
      SoftFixture fixture(kind);
      SoftPrompt& prompt = fixture.prompts.at(name);
      Loaded model(folder_of(kind), {.context_tokens = 256}, 1, kFixtures + "/assistants/" + kind + "-bf16");
      for (std::size_t b = 0; b < prompt.blocks.size(); ++b) {
        const Golden golden{kind, prompt.blocks[b].content, prompt.blocks[b].is_image ? Sense::vision : Sense::audio};
        const graph::Tower& tower = *model.program.graph->tower(golden.sense);
        std::ranges::copy(perceive(*model.executor, tower, taken_of(golden, tower)).soft, prompt.values[b].begin());
      }
      const auto said = [&](float temperature, int k) {
        std::vector<decode::Speculation::SourceKind> sources;
        if (k > 0) sources.push_back({[] { return std::make_unique<decode::Assistant>(); }, {}});
        decode::Speculation speculation(std::move(sources), k);
        decode::Session session(model.program, *model.executor);
        decode::Generation generation(session, prompt.ids,
                                      {.sampling = {.temperature = temperature, .seed = 9}, .soft = prompt.soft(), .max_tokens = 12, .speculation = &speculation});
        return all_of(generation);
      };
      for (const float temperature : {0.0f, 0.7f}) {
        const std::vector<std::int32_t> plain = said(temperature, 0);
        if (temperature == 0.0f) expect(plain == fixture.expected.ids(std::string(name) + ".greedy"));
        for (const int k : is_cpu() ? std::vector{1, 4} : std::vector{4}) expect(said(temperature, k) == plain) << k << "drafts, temperature" << temperature;
      }
    };

  "towers of MLX checkpoints are those of Hugging Face, but for what they quantise"_test = [] {
    for (const Golden& golden : kGoldens) {
      Loaded plain(folder_of(golden.kind)), packed(folder_of(golden.kind, "4bit"));
      const graph::Tower& tower = *plain.program.graph->tower(golden.sense);
      const Taken taken = taken_of(golden, tower);
      const Perceived a = perceive(*plain.executor, tower, taken), b = perceive(*packed.executor, tower, taken);
      const bool quantised = golden.kind == "unified";  // its dense matrix of patches
      if (!quantised) expect(same_bits(a.tower, b.tower)) << golden.kind << golden.name;
      expect(worst(a.soft, b.soft) < 0.5 * largest(a.soft)) << golden.kind << golden.name;
    }
  };

  if (is_cpu())
    "a percept has the same bits on any number of threads"_test = [] {
      for (const Golden& golden : kGoldens)
        for (const link::Numeric numeric : numerics()) {
          Loaded alone(folder_of(golden.kind), {.numeric = numeric}), shared(folder_of(golden.kind), {.numeric = numeric}, 2);
          const graph::Tower& tower = *alone.program.graph->tower(golden.sense);
          const Taken taken = taken_of(golden, tower);
          const Perceived a = perceive(*alone.executor, tower, taken), b = perceive(*shared.executor, tower, taken);
          expect(same_bits(a.soft, b.soft)) << golden.kind << golden.name;
        }
    };

  "a percept does not depend on the one before it"_test = [] {
    for (const link::Numeric numeric : numerics()) {
      Loaded model(folder_of("ple"), {.numeric = numeric});
      const graph::Tower &eye = *model.program.graph->tower(Sense::vision), &ear = *model.program.graph->tower(Sense::audio);
      const Taken wide = picture("wide-3x200", 16), small = picture("rgb-48x64", 16), heard = sound(ear);
      const Perceived first = perceive(*model.executor, eye, small), heard_first = perceive(*model.executor, ear, heard);
      perceive(*model.executor, eye, wide);
      expect(same_bits(perceive(*model.executor, eye, small).soft, first.soft));
      expect(same_bits(perceive(*model.executor, ear, heard).soft, heard_first.soft));
    }
  };

  "a sound of few frames is shorter than what a frame sees"_test = [] {
    Loaded model(folder_of("ple"));
    const graph::Tower& ear = *model.program.graph->tower(Sense::audio);
    Taken all = sound(ear), few = all;
    few.rows = 5;
    few.values.resize(5 * 128);
    const Perceived a = perceive(*model.executor, ear, all), b = perceive(*model.executor, ear, few);
    expect(b.soft.size() == 256_u);
    // Frames see what came before them alone, but for the convolutions' next ones.
    expect(same_bits({a.soft.begin(), a.soft.begin() + 128}, {b.soft.begin(), b.soft.begin() + 128}));
  };

  "what a tower cannot take is refused"_test = [] {
    Loaded model(folder_of("dense"));
    const graph::Tower& eye = *model.program.graph->tower(Sense::vision);
    std::vector<float> values(9 * 768), soft(128), rows(64);
    const auto outcome = [&](Percept percept, std::span<float> out, std::span<float> tower = {}) {
      return outcome_of([&] { model.executor->perceive(percept, out, tower); });
    };
    expect(eye.soft_tokens(3, 3) == 1_i);
    expect(outcome({Sense::vision, 3, 3, values}, soft, rows) == "ok");
    expect(outcome({Sense::vision, 3, 3, values}, soft) == "ok");
    expect(outcome({Sense::audio, 9, 1, values}, soft) == "unsupported");
    expect(outcome({Sense::vision, 9, 1, values}, soft) == "usage") << "no whole cells";
    expect(outcome({Sense::vision, 3, 3, std::span(values).first(9 * 768 - 1)}, soft) == "usage");
    expect(outcome({Sense::vision, 3, 3, values}, std::span(soft).first(127)) == "usage");
    expect(outcome({Sense::vision, 3, 3, values}, soft, std::span(rows).first(63)) == "usage");
    expect(outcome({Sense::vision, 0, 3, {}}, {}) == "usage");
    expect(outcome({Sense::vision, 3, 1 << 30, values}, soft) == "usage");
    expect(outcome({Sense::vision, 3, 243, values}, soft) == "usage") << "more columns than positions";
  };

  "a checkpoint without its tower's tensors answers texts, and says what it lacks when it shall see"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(folder_of("ple"), folder.path(), std::filesystem::copy_options::recursive);
    std::vector<NamedTensor> kept;
    const Checkpoint whole = Checkpoint::open(folder_of("ple"));
    for (const NamedTensor& one : whole.tensors())
      if (one.name.find("vision_tower.encoder.layers.1") == std::string::npos) kept.push_back(one);
    write_safetensors(folder.path() + "/model.safetensors", kept);
    Loaded model(folder.path());
    std::vector<float> values(9 * 768), soft(128);
    const auto error = error_of([&] { model.executor->perceive({Sense::vision, 3, 3, values}, soft); });
    expect(error && error->kind == ErrorKind::missing_tensor && error->message().find("vision_tower.encoder.layers.1") != std::string::npos);
    const Taken heard = sound(*model.program.graph->tower(Sense::audio));
    perceive(*model.executor, *model.program.graph->tower(Sense::audio), heard);  // the other tower is whole
  };

  if (is_cpu())
    "a text touches no weight of a tower, from loading on"_test = [] {
      for (const link::Numeric numeric : numerics()) {
        Checkpoint checkpoint = Checkpoint::open(folder_of("ple"));
        const graph::Graph& graph = *link::try_find_graph(checkpoint.config().shape);
        forbid_towers(checkpoint);
        const auto answered = [&](bool sees) {
          const link::Program program = link::link(std::move(checkpoint), std::nullopt, graph, {.threads = 1, .numeric = numeric});
          const std::unique_ptr<link::Executor> executor = program.backend->make(program);
          decode::Session session(program, *executor);
          session.prefill(std::vector<std::int32_t>{2, 17, 40, 41, 90});
          decode::greedy(session, 8);
          std::vector<float> values(9 * 768), soft(128);
          if (sees) executor->perceive({Sense::vision, 3, 3, values}, soft);
        };
        expect(eq(signal_of([&] { answered(false); }), 0));
        expect(eq(signal_of([&] { answered(true); }), SIGSEGV)) << "a picture does";
      }
    };

  "a text model has no towers"_test = [] {
    Loaded model(folder_of("moe"));
    std::vector<float> values(9 * 768), soft(128);
    expect(outcome_of([&] { model.executor->perceive({Sense::vision, 3, 3, values}, soft); }) == "unsupported");
  };

  "the plan counts what towers work in, the larger of two"_test = [] {
    const link::Program both = Loaded::load(folder_of("ple"), {}), none = Loaded::load(folder_of("moe"), {});
    std::size_t most = 0;
    for (const graph::Tower& tower : both.graph->towers)
      most = std::max(most, static_cast<std::size_t>(tower.segment.bytes(graph::Region::rows)) * tower.max_rows);
    expect(both.plan.tower_bytes >= most && both.plan.tower_bytes < most + 4096);
    expect(none.plan.tower_bytes == 0_u && none.plan.image_tokens == 0_i);
  };

  "what a tower works in is for the largest picture to come, and a larger one is refused"_test = [] {
    const graph::Graph& graph = *Loaded::load(folder_of("dense"), {}).graph;
    const auto row_bytes = static_cast<std::size_t>(graph.towers[0].segment.bytes(graph::Region::rows));
    for (const auto& [budget, rows] : {std::pair{0, 1120 * 9}, {70, 70 * 9}, {1120, 1120 * 9}}) {
      const link::MemoryPlan plan = Loaded::load(folder_of("dense"), {.image_tokens = budget}).plan;
      expect(plan.tower_bytes >= rows * row_bytes && plan.tower_bytes < rows * row_bytes + 4096) << budget;
    }
    Loaded model(folder_of("dense"), {.image_tokens = 70});
    const auto outcome = [&](std::int32_t rows, std::int32_t columns) {
      std::vector<float> values(static_cast<std::size_t>(rows) * columns * 768), soft(static_cast<std::size_t>(rows / 3) * (columns / 3) * 128);
      return outcome_of([&] { model.executor->perceive({Sense::vision, rows, columns, values}, soft); });
    };
    expect(outcome(3, 210) == "ok" && outcome(3, 213) == "usage");
  };
};

}  // namespace
}  // namespace lapidary::test::towers_test
