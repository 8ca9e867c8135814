// lapidary inspect: what a checkpoint is, what it costs, and the graph it runs through.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/inspect_towers.hpp"
#include "cli/model.hpp"
#include "cli/size_text.hpp"
#include "cpu/backend.hpp"
#include "cut/payload.hpp"
#include "engine/stats.hpp"
#include "graph/listing.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

struct InspectFlags {
  ModelFlags model;
  DraftFlags draft;
  bool graph = false;
  bool json = false;
  bool verify = false;
};

void print_cut(const link::Manifest& gem) {
  std::cout << "\ncut\n  date           " << gem.date << "\n  lapidary       " << gem.version << ", compiled by " << gem.compiler
            << "\n  payload        " << size_text(static_cast<std::size_t>(gem.payload_bytes))
            << (gem.payload_path.empty() ? " in this program" : " in " + std::string(gem.payload_path)) << "\n";
  for (const link::PlacedFile& file : gem.files) std::cout << "  weights        " << file.path << "\n";
  for (const link::CutOrigin* origin : gem.origins()) {
    std::cout << "  from           " << origin->folder << "\n";
    for (const link::CutHash& hash : origin->hashes) std::cout << "    " << hash.sha256 << "  " << hash.file << "\n";
  }
  for (const link::CutDefault& given : gem.defaults) std::cout << "  --" << given.flag << " " << given.value << "\n";
}

Value json_of(const link::Manifest& gem) {
  Value::Object hashes, defaults;
  for (const link::CutOrigin* origin : gem.origins())
    for (const link::CutHash& hash : origin->hashes) hashes.emplace_back(std::string(origin->folder) + "/" + std::string(hash.file), hash.sha256);
  for (const link::CutDefault& given : gem.defaults) defaults.emplace_back(std::string(given.flag), given.value);
  return Value::Object{{"date", gem.date}, {"lapidary", gem.version}, {"compiler", gem.compiler},
                       {"payload_bytes", static_cast<std::int64_t>(gem.payload_bytes)}, {"sha256", std::move(hashes)},
                       {"defaults", std::move(defaults)}};
}

// Weights by what they are for, with their storage.
struct ClassRow {
  std::string part, storage;
  std::size_t tensors = 0, bytes = 0;
};

// "28.3 million", "25.2 billion"
std::string count_text(std::size_t count) {
  const bool is_billions = count >= 1'000'000'000;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(count) / (is_billions ? 1e9 : 1e6), is_billions ? "billion" : "million");
  return text;
}

// Numbers that were learnt; those of drafters are not the model's, towers stand by themselves.
std::size_t parameters_of(const link::Program& program) {
  std::size_t count = 0;
  for (std::size_t id = 0; id < program.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = program.graph->weights[id];
    if (slot.owner != graph::Owner::target) continue;
    const link::Matrix& matrix = program.matrices[id];
    count += matrix.values ? static_cast<std::size_t>(std::max(1, matrix.experts)) * matrix.rows * matrix.cols : slot.cols;
  }
  return count;
}

std::string part_of(std::string_view name) {
  for (const auto& [piece, part] : {std::pair{"embed_tokens_per_layer", "per-layer embedding"}, {"embed_tokens", "embedding"},
                                    {"self_attn", "attention"}, {"experts.", "experts"}, {"router.", "router"},
                                    {"mlp.", "mlp"}, {"per_layer", "per-layer input"}, {"_projection", "projections"},
                                    {"centroids", "centroids"}, {"fc", "projections"}})
    if (name.find(piece) != name.npos) return part;
  return "norms";
}

// As it lies in memory; empty for weights of a drafter that is not there.
std::string storage_of(const link::Program& program, graph::WeightId id) {
  if (program.vectors[id]) return "float32";
  if (program.ids[id]) return "int32";
  return program.matrices[id].values ? name_of(program.matrices[id].storage) : "";
}

std::vector<ClassRow> classes_of(const link::Program& program) {
  std::map<std::pair<std::string, std::string>, ClassRow> rows;
  for (std::size_t id = 0; id < program.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = program.graph->weights[id];
    if (!program.drafters().has(slot.owner) || is_tower(slot.owner)) continue;
    const char* whose = slot.owner == graph::Owner::assistant ? "assistant " : slot.owner == graph::Owner::dflash ? "dflash " : "";
    const bool is_matrix = program.matrices[id].values != nullptr;
    const std::string part = whose + (is_matrix ? part_of(slot.name) : "norms and scales");
    const std::string storage = storage_of(program, static_cast<graph::WeightId>(id));
    ClassRow& row = rows[{part, storage}];
    row.part = part;
    row.storage = storage;
    ++row.tensors;
    row.bytes += is_matrix ? program.matrices[id].total_bytes() : slot.cols * sizeof(float);
  }
  std::vector<ClassRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  std::ranges::sort(list, std::ranges::greater(), &ClassRow::bytes);
  return list;
}

// The largest first, with a bar as long as its share.
void print_weights(const link::Program& program) {
  constexpr double kFullBar = 46;  // letters
  const std::vector<ClassRow> rows = classes_of(program);
  double all_bytes = 0;
  for (const ClassRow& row : rows) all_bytes += static_cast<double>(row.bytes);
  std::cout << "\nweights\n";
  for (const ClassRow& row : rows) {
    const double share = static_cast<double>(row.bytes) / all_bytes;
    const std::string bar(static_cast<std::size_t>(std::lround(share * kFullBar)), '#');
    std::printf("  %-26s %-12s %5zu tensors %10s %5.1f %%%s%s\n", row.part.c_str(), row.storage.c_str(), row.tensors,
                size_text(row.bytes).c_str(), 100 * share, bar.empty() ? "" : "  ", bar.c_str());
  }
}

std::string listing_of(const link::Program& program) {
  std::ostringstream out;
  const std::vector<link::Matrix> towers = tower_matrices(program);
  graph::write_listing(out, *program.graph, [&](const graph::Step& step, graph::WeightId id) {
    const link::Matrix& tower = towers[static_cast<std::size_t>(id)];
    const bool row = info_of(step.op).reads == graph::Reads::row;
    if (tower.values) return graph::WeightFacts{name_of(tower.storage), static_cast<std::int64_t>(row ? tower.row_bytes : tower.total_bytes())};
    return graph::WeightFacts{storage_of(program, id), link::bytes_per_row(program, step, id)};
  });
  return out.str();
}

// "q8; 170.0 MB in 5 full layers with one store of K and V, the rest in windows"
std::string kv_text(const link::Program& program) {
  const link::MemoryPlan& plan = program.plan;
  int layers = 0, one = 0;
  for (std::size_t l = 0; l < plan.target_kv().size(); ++l) {
    if (!plan.kv[l].capacity || program.graph->shape.layers[l].kind != graph::LayerKind::full) continue;
    ++layers;
    one += plan.kv[l].stores.one;
  }
  return std::string(plan.kv_format.name) + "; " + size_text(plan.kv_full_bytes) + " in " + std::to_string(layers) + " full layers" +
         (one == 0 ? " with two stores each" : one == layers ? " with one store each" : ", " + std::to_string(one) + " of them with one store") +
         ", the rest in windows";
}

void print_text(const link::Program& program, const InstructionsFlag& instructions, bool with_graph) {
  const graph::Shape& shape = program.graph->shape;
  const link::MemoryPlan& plan = program.plan;
  const link::TokenCost cost = link::cost_of_token(program);
  int full = 0, shared = 0;
  for (int l = 0; l < shape.layer_count; ++l) {
    full += shape.layers[l].kind == graph::LayerKind::full;
    shared += shape.layers[l].kv_layer != l;
  }
  std::cout << program.target.folder << ": " << program.target.model_type << ", graph " << program.graph->name
            << "\n\nshape\n  parameters     " << count_text(parameters_of(program)) << "\n  context        up to "
            << program.target.max_positions << " tokens\n  layers         " << shape.layer_count << " (" << full << " full, " << shared
            << " share K/V)\n  hidden         " << shape.hidden << "\n  heads          " << shape.heads
            << "\n  window         " << shape.window << "\n  vocabulary     " << shape.vocab << "\n";
  if (shape.experts)
    std::cout << "  experts        " << shape.experts << " of width " << shape.expert_width << ", " << shape.experts_used
              << " used\n";
  if (shape.ple_width) std::cout << "  per-layer      " << shape.ple_width << "\n";
  std::cout << "\narithmetic\n  numeric        " << name_of(program.numeric) << "\n";
  if (program.backend == &cpu::kBackend)
    std::cout << "  instructions   " << instructions.taken_by(program.numeric).text() << "\n";
  print_weights(program);
  std::cout << "\nper decoded token\n  weights        " << size_text(static_cast<std::size_t>(cost.weight_bytes)) << "\n  steps          "
            << cost.steps << "\n  K/V            " << size_text(plan.kv_bytes_per_token) << "\n\nmemory for " << plan.context_tokens
            << " tokens, prompt chunks of " << plan.chunk_rows << "\n  weights mapped " << size_text(plan.weights_mapped_bytes)
            << "\n  K/V            " << size_text(plan.kv_bytes) << ", " << kv_text(program) << "\n  arena          " << size_text(plan.arena_bytes)
            << (plan.tower_bytes ? "\n  towers         " + size_text(plan.tower_bytes) : "") << "\n  constants      " << size_text(plan.constants_bytes) << "\n  repacked       " << size_text(plan.repacked_bytes)
            << "\n  threads        " << size_text(plan.room_bytes) << "\n  text           " << size_text(plan.text_bytes)
            << "\n  anonymous      " << size_text(plan.anonymous_bytes()) << "\n";
  const auto print_drafter = [](const char* name, const std::optional<link::Origin>& drafter, const char* what, const link::TokenCost& cost) {
    if (!drafter) return;
    std::cout << "\n" << name << " " << drafter->folder << ", per " << what << "\n  weights        "
              << size_text(static_cast<std::size_t>(cost.weight_bytes)) << "\n  steps          " << cost.steps << "\n";
  };
  print_drafter("assistant", program.assistant, "draft", link::cost_of_draft(program));
  print_drafter("dflash", program.dflash, "block", link::cost_of_block(program));
  print_towers(program);
  if (const link::Manifest* gem = engine::gem()) print_cut(*gem);
  if (with_graph) std::cout << "\n" << listing_of(program);
}

Value json_of(const link::Program& program, const InstructionsFlag& instructions, bool with_graph) {
  const graph::Shape& shape = program.graph->shape;
  const link::MemoryPlan& plan = program.plan;
  const link::TokenCost cost = link::cost_of_token(program);
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  Value::Array weights;
  for (const ClassRow& row : classes_of(program))
    weights.push_back(Value::Object{
        {"part", row.part}, {"storage", row.storage}, {"tensors", bytes(row.tensors)}, {"bytes", bytes(row.bytes)}});
  Value::Object object{
      {"checkpoint", program.target.folder},
      {"model_type", program.target.model_type},
      {"graph", program.graph->name},
      {"shape", Value::Object{{"parameters", bytes(parameters_of(program))},
                              {"context_limit", program.target.max_positions},
                              {"layers", shape.layer_count},
                              {"hidden", shape.hidden},
                              {"heads", shape.heads},
                              {"window", shape.window},
                              {"vocabulary", shape.vocab},
                              {"experts", shape.experts},
                              {"experts_used", shape.experts_used},
                              {"per_layer_width", shape.ple_width}}},
      {"numeric", name_of(program.numeric)},
      {"weights", std::move(weights)},
      {"per_token", Value::Object{{"weight_bytes", cost.weight_bytes},
                                  {"steps", bytes(cost.steps)},
                                  {"kv_bytes", bytes(plan.kv_bytes_per_token)}}},
      {"kv", engine::kv_stats(program)},
      {"memory", Value::Object{{"context_tokens", plan.context_tokens},
                               {"chunk_rows", plan.chunk_rows},
                               {"weights_mapped_bytes", bytes(plan.weights_mapped_bytes)},
                               {"kv_bytes", bytes(plan.kv_bytes)},
                               {"kv_format", plan.kv_format.name},
                               {"arena_bytes", bytes(plan.arena_bytes)},
                               {"tower_bytes", bytes(plan.tower_bytes)},
                               {"constants_bytes", bytes(plan.constants_bytes)},
                               {"repacked_bytes", bytes(plan.repacked_bytes)},
                               {"thread_bytes", bytes(plan.room_bytes)},
                               {"text_bytes", bytes(plan.text_bytes)},
                               {"anonymous_bytes", bytes(plan.anonymous_bytes())}}},
  };
  if (program.backend == &cpu::kBackend) object.emplace_back("instructions", instructions.taken_by(program.numeric).json());
  const auto add_drafter = [&](const char* name, const std::optional<link::Origin>& drafter, const std::string& what, const link::TokenCost& cost) {
    if (!drafter) return;
    object.emplace_back(name, Value::Object{{"checkpoint", drafter->folder},
                                            {"weight_bytes_per_" + what, cost.weight_bytes},
                                            {"steps_per_" + what, bytes(cost.steps)}});
  };
  add_drafter("assistant", program.assistant, "draft", link::cost_of_draft(program));
  add_drafter("dflash", program.dflash, "block", link::cost_of_block(program));
  if (!program.graph->towers.empty()) object.emplace_back("towers", json_of_towers(program));
  if (const link::Manifest* gem = engine::gem()) object.emplace_back("cut", json_of(*gem));
  if (!with_graph) return object;
  Value::Array steps;
  for (int id = 0; id < graph::kSegmentCount; ++id)
    for (const graph::Step& step : program.graph->segments[id].steps) {
      if (!link::runs(program, step)) continue;
      steps.push_back(Value::Object{{"segment", name_of(static_cast<graph::SegmentId>(id))},
                                    {"layer", step.layer},
                                    {"kernel", link::variant_of(program, step)},
                                    {"weight_bytes", link::weight_bytes(program, step)}});
    }
  object.emplace_back("steps", std::move(steps));
  return object;
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show a checkpoint's shape, storage, cost per token and memory plan");
  const auto flags = std::make_shared<InspectFlags>();
  flags->model.add_to(*command);
  flags->draft.add_to(*command);
  command->add_flag("--graph", flags->graph, "also list every step of the graph");
  command->add_flag("--json", flags->json, "one JSON object instead of text");
  if (engine::gem()) command->add_flag("--verify", flags->verify, "read all bytes of this program's model, and compare them with their hashes");
  command->callback([flags] {
    if (flags->verify) cut::Payload(*engine::gem(), "").verify();
    link::Program program = flags->model.load(flags->draft);
    // A checkpoint without a tokenizer is good for commands that need none.
    const std::string folder = folder_of(flags->model.checkpoint);
    if (engine::has_tokenizer(folder)) engine::count_text(program.plan, engine::open_tokenizer(folder), flags->draft.options);
    const InstructionsFlag& instructions = flags->model.backend_flags.instructions;
    if (flags->json) std::cout << text::to_json(json_of(program, instructions, flags->graph)) << "\n";
    else print_text(program, instructions, flags->graph);
    if (flags->verify && !flags->json) std::cout << "\nall bytes are those of their hashes\n";
  });
}

}  // namespace lapidary::cli
