// lapidary inspect: what a checkpoint is, what it costs, and the graph it runs through.
#include <iostream>
#include <map>
#include <sstream>

#include "cli/commands.hpp"
#include "cli/json.hpp"
#include "cli/model.hpp"
#include "graph/listing.hpp"

namespace lapidary::cli {
namespace {

struct InspectFlags {
  ModelFlags model;
  bool graph = false;
  bool json = false;
};

// Weights by what they are for, with their storage.
struct ClassRow {
  std::string part, storage;
  std::size_t tensors = 0, bytes = 0;
};

std::string part_of(std::string_view name) {
  for (const auto& [piece, part] : {std::pair{"embed_tokens_per_layer", "per-layer embedding"}, {"embed_tokens", "embedding"},
                                    {"self_attn", "attention"}, {"experts.", "experts"}, {"router.", "router"},
                                    {"mlp.", "mlp"}, {"per_layer", "per-layer input"}})
    if (name.find(piece) != name.npos) return part;
  return "norms";
}

std::vector<ClassRow> classes_of(const link::Program& program) {
  std::map<std::pair<std::string, std::string>, ClassRow> rows;
  for (std::size_t id = 0; id < program.graph->weights.size(); ++id) {
    const graph::WeightSlot& slot = program.graph->weights[id];
    const bool vector = slot.kind == graph::WeightClass::vector;
    const std::string part = vector ? "norms and scales" : part_of(slot.name);
    const std::string storage = vector ? "float32" : name_of(program.matrices[id].storage);
    ClassRow& row = rows[{part, storage}];
    row.part = part;
    row.storage = storage;
    ++row.tensors;
    row.bytes += vector ? slot.cols * sizeof(float) : program.matrices[id].total_bytes();
  }
  std::vector<ClassRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

struct TokenCost {
  std::int64_t weight_bytes = 0;
  std::size_t steps = 0;
};

TokenCost cost_of_token(const link::Program& program) {
  TokenCost cost;
  for (const graph::SegmentId id : {graph::SegmentId::forward, graph::SegmentId::head, graph::SegmentId::select})
    for (const graph::Step& step : program.graph->segment(id).steps) {
      ++cost.steps;
      for (const graph::WeightId weight : step.weights)
        if (weight != graph::kNone) cost.weight_bytes += link::bytes_per_row(program, step, weight);
    }
  return cost;
}

std::string listing_of(const link::Program& program) {
  std::ostringstream out;
  graph::write_listing(out, *program.graph, [&](const graph::Step& step, graph::WeightId id) {
    const bool vector = program.vectors[id] != nullptr;
    return graph::WeightFacts{vector ? "f32" : name_of(program.matrices[id].storage), link::bytes_per_row(program, step, id)};
  });
  return out.str();
}

void print_text(const link::Program& program, bool with_graph) {
  const graph::Shape& shape = program.graph->shape;
  const link::MemoryPlan& plan = program.plan;
  const TokenCost cost = cost_of_token(program);
  int full = 0, shared = 0;
  for (int l = 0; l < shape.layer_count; ++l) {
    full += shape.layers[l].kind == graph::LayerKind::full;
    shared += shape.layers[l].kv_layer != l;
  }
  std::cout << program.checkpoint.folder() << ": " << program.checkpoint.config().model_type << ", graph " << program.graph->name
            << "\n\nshape\n  layers         " << shape.layer_count << " (" << full << " full, " << shared
            << " share K/V)\n  hidden         " << shape.hidden << "\n  heads          " << shape.heads
            << "\n  window         " << shape.window << "\n  vocabulary     " << shape.vocab << "\n";
  if (shape.experts)
    std::cout << "  experts        " << shape.experts << " of width " << shape.expert_width << ", " << shape.experts_used
              << " used\n";
  if (shape.ple_width) std::cout << "  per-layer      " << shape.ple_width << "\n";
  std::cout << "\nweights\n";
  for (const ClassRow& row : classes_of(program))
    std::printf("  %-20s %-12s %5zu tensors %14zu bytes\n", row.part.c_str(), row.storage.c_str(), row.tensors, row.bytes);
  std::fflush(stdout);
  std::cout << "\nper decoded token\n  weight bytes   " << cost.weight_bytes << "\n  steps          " << cost.steps
            << "\n  K/V bytes      " << plan.kv_bytes_per_token << "\n\nmemory for " << plan.context_tokens
            << " tokens, prompt chunks of " << plan.chunk_rows << "\n  weights mapped " << plan.weights_mapped_bytes
            << " bytes\n  K/V            " << plan.kv_bytes << " bytes\n  arena          " << plan.arena_bytes
            << " bytes\n  constants      " << plan.constants_bytes << " bytes\n  anonymous      " << plan.anonymous_bytes()
            << " bytes\n";
  if (with_graph) std::cout << "\n" << listing_of(program);
}

void print_json(const link::Program& program, bool with_graph) {
  const graph::Shape& shape = program.graph->shape;
  const link::MemoryPlan& plan = program.plan;
  const TokenCost cost = cost_of_token(program);
  JsonWriter json(std::cout);
  json.begin_object();
  json.member("checkpoint", program.checkpoint.folder());
  json.member("model_type", program.checkpoint.config().model_type);
  json.member("graph", program.graph->name);
  json.key("shape").begin_object();
  json.member("layers", shape.layer_count);
  json.member("hidden", shape.hidden);
  json.member("heads", shape.heads);
  json.member("window", shape.window);
  json.member("vocabulary", shape.vocab);
  json.member("experts", shape.experts);
  json.member("experts_used", shape.experts_used);
  json.member("per_layer_width", shape.ple_width);
  json.end_object();
  json.key("weights").begin_array();
  for (const ClassRow& row : classes_of(program)) {
    json.begin_object();
    json.member("part", row.part);
    json.member("storage", row.storage);
    json.member("tensors", row.tensors);
    json.member("bytes", row.bytes);
    json.end_object();
  }
  json.end_array();
  json.key("per_token").begin_object();
  json.member("weight_bytes", cost.weight_bytes);
  json.member("steps", cost.steps);
  json.member("kv_bytes", plan.kv_bytes_per_token);
  json.end_object();
  json.key("memory").begin_object();
  json.member("context_tokens", plan.context_tokens);
  json.member("chunk_rows", plan.chunk_rows);
  json.member("weights_mapped_bytes", plan.weights_mapped_bytes);
  json.member("kv_bytes", plan.kv_bytes);
  json.member("arena_bytes", plan.arena_bytes);
  json.member("constants_bytes", plan.constants_bytes);
  json.member("anonymous_bytes", plan.anonymous_bytes());
  json.end_object();
  if (with_graph) {
    json.key("steps").begin_array();
    for (int id = 0; id < graph::kSegmentCount; ++id)
      for (const graph::Step& step : program.graph->segments[id].steps) {
        json.begin_object();
        json.member("segment", name_of(static_cast<graph::SegmentId>(id)));
        json.member("layer", step.layer);
        json.member("kernel", link::variant_of(program, step));
        std::int64_t bytes = 0;
        for (const graph::WeightId weight : step.weights)
          if (weight != graph::kNone) bytes += link::bytes_per_row(program, step, weight);
        json.member("weight_bytes", bytes);
        json.end_object();
      }
    json.end_array();
  }
  json.end_object();
  std::cout << "\n";
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Show a checkpoint's shape, storage, cost per token and memory plan");
  const auto flags = std::make_shared<InspectFlags>();
  flags->model.add_to(*command);
  command->add_flag("--graph", flags->graph, "also list every step of the graph");
  command->add_flag("--json", flags->json, "one JSON object instead of text");
  command->callback([flags] {
    const link::Program program = flags->model.load();
    flags->json ? print_json(program, flags->graph) : print_text(program, flags->graph);
  });
}

}  // namespace lapidary::cli
