// Stage 5: the graph as constexpr C++.
#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "stages.hpp"

namespace lapidary::codegen {
namespace {

using namespace graph;

// Floats as hexadecimal literals: no rounding on the way through text.
std::string literal(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::hex).ptr;
  std::string digits(text, end);
  const bool negative = digits[0] == '-';
  return (negative ? "-0x" : "0x") + digits.substr(negative ? 1 : 0);
}
std::string literal(float value) { return literal(static_cast<double>(value)) + "f"; }
std::string literal(bool value) { return value ? "true" : "false"; }
std::string literal(std::int64_t value) { return std::to_string(value); }
std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

const char* spelled(Region region) {
  switch (region) {
    case Region::rows: return "Region::rows";
    case Region::outputs: return "Region::outputs";
    case Region::draft: return "Region::draft";
    case Region::session: return "Region::session";
    case Region::given: return "Region::given";
    case Region::features: return "Region::features";
  }
  return "";
}
const char* spelled(Owner owner) {
  switch (owner) {
    case Owner::target: return "Owner::target";
    case Owner::assistant: return "Owner::assistant";
    case Owner::dflash: return "Owner::dflash";
    case Owner::vision: return "Owner::vision";
    case Owner::audio: return "Owner::audio";
  }
  return "";
}
const char* spelled(WeightClass kind) {
  switch (kind) {
    case WeightClass::embedding: return "WeightClass::embedding";
    case WeightClass::matrix: return "WeightClass::matrix";
    case WeightClass::experts: return "WeightClass::experts";
    case WeightClass::vector: return "WeightClass::vector";
    case WeightClass::kernel: return "WeightClass::kernel";
    case WeightClass::ids: return "WeightClass::ids";
  }
  return "";
}
const char* spelled(RowSet rows) {
  switch (rows) {
    case RowSet::chunk: return "RowSet::chunk";
    case RowSet::last: return "RowSet::last";
    case RowSet::verify: return "RowSet::verify";
    case RowSet::draft: return "RowSet::draft";
    case RowSet::pending: return "RowSet::pending";
    case RowSet::block: return "RowSet::block";
    case RowSet::block_causal: return "RowSet::block_causal";
    case RowSet::percept: return "RowSet::percept";
    case RowSet::halved: return "RowSet::halved";
    case RowSet::soft: return "RowSet::soft";
    case RowSet::distances: return "RowSet::distances";
  }
  return "";
}

// A brace list of the members that differ from their defaults.
class Members {
 public:
  template <class T>
  void add(const char* name, const T& value, const T& standard) {
    if (value != standard) add(name, written(value));
  }
  void add(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "." : ", .") + std::string(name) + " = " + value;
  }
  std::string str() const { return "{" + text_ + "}"; }

 private:
  template <class T>
  static std::string written(const T& value) { return literal(static_cast<std::int64_t>(value)); }
  static std::string written(float value) { return literal(value); }
  static std::string written(double value) { return literal(value); }
  static std::string written(bool value) { return literal(value); }
  template <class T, std::size_t N>
  static std::string written(const std::array<T, N>& values) {
    std::string text;
    for (const T value : values) text += (text.empty() ? "" : ", ") + written(value);
    return "{" + text + "}";
  }

  std::string text_;
};

std::string dims_literal(const Dims& dims) {
  const Dims none;
  Members m;
  for_each_dim([&](const char* name, const auto& value, const auto& standard) { m.add(name, value, standard); }, dims, none);
  return m.str();
}

// What steps carry, each once.
class DimsTable {
 public:
  void add(const Segment& segment) {
    for (const Step& step : segment.steps)
      if (const std::string text = dims_literal(*step.dims); places_.try_emplace(text, places_.size()).second) rows_ += "  " + text + ",\n";
  }
  std::string place_of(const Dims& dims) const { return "&dims[" + std::to_string(places_.at(dims_literal(dims))) + "]"; }
  const std::string& rows() const { return rows_; }

 private:
  std::map<std::string, std::size_t> places_;
  std::string rows_;
};

std::string step_literal(const Step& step, const std::string& dims) {
  const Step none;
  Members m;
  m.add("op", "Op::" + std::string(name_of(step.op)));
  m.add("rows", spelled(step.rows));
  m.add("layer", step.layer, none.layer);
  m.add("in", step.in, none.in);
  m.add("out", step.out, none.out);
  m.add("weights", step.weights, none.weights);
  m.add("constants", step.constants, none.constants);
  m.add("tap", step.tap, none.tap);
  m.add("first_wait", step.first_wait, none.first_wait);
  m.add("wait_count", step.wait_count, none.wait_count);
  m.add("dims", dims);
  return m.str();
}

std::string rope_literal(const Rope& rope) {
  return "{" + literal(rope.theta) + ", " + literal(rope.partial) + ", " + literal(rope.factor) + "}";
}

std::string shape_literal(const Shape& shape) {
  const Shape none;
  Members m;
  m.add("vocab", shape.vocab, none.vocab);
  m.add("hidden", shape.hidden, none.hidden);
  m.add("heads", shape.heads, none.heads);
  m.add("window", shape.window, none.window);
  m.add("ple_width", shape.ple_width, none.ple_width);
  m.add("ple_vocab", shape.ple_vocab, none.ple_vocab);
  m.add("experts", shape.experts, none.experts);
  m.add("experts_used", shape.experts_used, none.experts_used);
  m.add("expert_width", shape.expert_width, none.expert_width);
  m.add("max_positions", shape.max_positions, none.max_positions);
  m.add("bidirectional_images", shape.bidirectional_images, none.bidirectional_images);
  m.add("norm_epsilon", shape.norm_epsilon, none.norm_epsilon);
  m.add("softcap", shape.softcap, none.softcap);
  m.add("rope", "{" + rope_literal(shape.rope[0]) + ", " + rope_literal(shape.rope[1]) + "}");
  m.add("layer_count", shape.layer_count, none.layer_count);
  std::string layers;
  for (const LayerShape& layer : shape.each_layer()) {
    layers += "\n    LayerShape{LayerKind::" + std::string(layer.kind == LayerKind::full ? "full" : "sliding") + ", " +
              literal(std::int64_t{layer.kv_heads}) + ", " + literal(std::int64_t{layer.head_dim}) + ", " +
              literal(std::int64_t{layer.intermediate}) + ", " + literal(std::int64_t{layer.kv_layer}) + ", " +
              literal(layer.values_are_keys) + "},";
  }
  m.add("layers", "{" + layers + "}");
  return m.str();
}

std::string dflash_literal(const DFlashShape& shape) {
  const DFlashShape none;
  Members m;
  m.add("vocab", shape.vocab, none.vocab);
  m.add("hidden", shape.hidden, none.hidden);
  m.add("heads", shape.heads, none.heads);
  m.add("kv_heads", shape.kv_heads, none.kv_heads);
  m.add("head_dim", shape.head_dim, none.head_dim);
  m.add("intermediate", shape.intermediate, none.intermediate);
  m.add("window", shape.window, none.window);
  m.add("block", shape.block, none.block);
  m.add("mask_token", shape.mask_token, none.mask_token);
  m.add("target_layers", shape.target_layers, none.target_layers);
  m.add("max_positions", shape.max_positions, none.max_positions);
  m.add("norm_epsilon", shape.norm_epsilon, none.norm_epsilon);
  m.add("softcap", shape.softcap, none.softcap);
  m.add("rope_theta", shape.rope_theta, none.rope_theta);
  m.add("layer_count", shape.layer_count, none.layer_count);
  std::string layers;
  for (const DFlashLayer& layer : std::span(shape.layers).first(static_cast<std::size_t>(shape.layer_count)))
    layers += "DFlashLayer{LayerKind::" + std::string(layer.kind == LayerKind::full ? "full" : "sliding") + ", " + literal(layer.causal) + "}, ";
  m.add("layers", "{" + layers + "}");
  m.add("tap_count", shape.tap_count, none.tap_count);
  m.add("taps", shape.taps, none.taps);
  return m.str();
}

std::string vision_literal(const VisionShape& shape) {
  const VisionShape none;
  Members m;
  m.add("hidden", shape.hidden, none.hidden);
  m.add("layer_count", shape.layer_count, none.layer_count);
  m.add("heads", shape.heads, none.heads);
  m.add("head_dim", shape.head_dim, none.head_dim);
  m.add("intermediate", shape.intermediate, none.intermediate);
  m.add("patch", shape.patch, none.patch);
  m.add("pool", shape.pool, none.pool);
  m.add("positions", shape.positions, none.positions);
  m.add("rope_theta", shape.rope_theta, none.rope_theta);
  m.add("norm_epsilon", shape.norm_epsilon, none.norm_epsilon);
  m.add("clipped", shape.clipped, none.clipped);
  m.add("standardised", shape.standardised, none.standardised);
  return m.str();
}

std::string audio_literal(const AudioShape& shape) {
  const AudioShape none;
  Members m;
  m.add("input", shape.input, none.input);
  m.add("hidden", shape.hidden, none.hidden);
  m.add("layer_count", shape.layer_count, none.layer_count);
  m.add("heads", shape.heads, none.heads);
  m.add("channels", shape.channels, none.channels);
  m.add("kernel", shape.kernel, none.kernel);
  m.add("window", shape.window, none.window);
  m.add("output", shape.output, none.output);
  m.add("logit_cap", shape.logit_cap, none.logit_cap);
  m.add("residual_weight", shape.residual_weight, none.residual_weight);
  m.add("norm_epsilon", shape.norm_epsilon, none.norm_epsilon);
  m.add("clipped", shape.clipped, none.clipped);
  return m.str();
}

void emit_segment(std::ostream& out, const DimsTable& dims, const Segment& segment, const std::string& prefix) {
  out << "constexpr Buffer " << prefix << "_buffers[] = {\n";
  for (const Buffer& buffer : segment.buffers)
    out << "  {" << quoted(buffer.name) << ", " << spelled(buffer.region) << ", " << buffer.row_bytes << ", "
        << buffer.offset << "},\n";
  out << "};\n";

  if (!segment.waits.empty()) {
    out << "constexpr std::int16_t " << prefix << "_waits[] = {";
    for (const std::int16_t wait : segment.waits) out << wait << ", ";
    out << "};\n";
  }
  if (segment.steps.empty()) return;
  out << "constexpr Step " << prefix << "_steps[] = {\n";
  for (const Step& step : segment.steps) out << "  " << step_literal(step, dims.place_of(*step.dims)) << ",\n";
  out << "};\n";
}

// The segment's tables; returns what they make.
std::string segment_literal(std::ostream& out, const DimsTable& dims, const Segment& segment, const std::string& prefix) {
  emit_segment(out, dims, segment, prefix);
  std::string bytes;
  for (const std::int64_t region_bytes : segment.region_bytes) bytes += literal(region_bytes) + ", ";
  const auto table = [&](bool empty, const char* name) { return empty ? "{}, " : prefix + name + ", "; };
  return "Segment{" + prefix + "_buffers, " + table(segment.steps.empty(), "_steps") + table(segment.waits.empty(), "_waits") + "{" + bytes + "}}";
}

std::string tower_literal(std::ostream& out, const DimsTable& dims, const Tower& tower) {
  const bool sees = tower.sense == Sense::vision;
  const std::string segment = segment_literal(out, dims, tower.segment, sees ? "vision" : "audio");
  Members m;
  m.add("sense", sees ? "Sense::vision" : "Sense::audio");
  if (sees) m.add("vision", vision_literal(tower.vision));
  else m.add("audio", audio_literal(tower.audio));
  m.add("input_width", tower.input_width, 0);
  m.add("tower_width", tower.tower_width, 0);
  m.add("soft_width", tower.soft_width, 0);
  m.add("max_rows", tower.max_rows, 0);
  m.add("segment", segment);
  return m.str();
}

}  // namespace

void emit_graph(std::ostream& out, const Graph& graph, const std::string& symbol) {
  out << "// Generated by lapidary-codegen: the graph of " << graph.name << ".\n"
      << "#include \"graph/graph.hpp\"\n\nnamespace lapidary::graph {\nnamespace {\n\n";
  out << "constexpr WeightSlot weights[] = {\n";
  for (const WeightSlot& slot : graph.weights)
    out << "  {" << quoted(slot.name) << ", " << spelled(slot.owner) << ", " << spelled(slot.kind) << ", " << literal(slot.clipped) << ", "
        << slot.experts << ", " << slot.rows << ", " << slot.cols << "},\n";
  out << "};\n";
  std::string constants;
  for (std::size_t i = 0; i < graph.constants.size(); ++i) {
    const std::string name = "constants_" + std::to_string(i);
    constants += name + ", ";
    out << "constexpr float " << name << "[] = {";
    for (const float value : graph.constants[i]) out << literal(value) << ", ";
    out << "};\n";
  }
  out << "constexpr std::span<const float> constants[] = {" << constants << "};\n";

  DimsTable dims;
  for (const Segment& segment : graph.segments) dims.add(segment);
  for (const Tower& tower : graph.towers) dims.add(tower.segment);
  out << "constexpr Dims dims[] = {\n" << dims.rows() << "};\n";

  std::string segments;
  for (int id = 0; id < kSegmentCount; ++id)
    segments += segment_literal(out, dims, graph.segments[id], std::string(name_of(static_cast<SegmentId>(id)))) + ", ";
  std::string towers;
  for (const Tower& tower : graph.towers) towers += "  " + tower_literal(out, dims, tower) + ",\n";
  if (!towers.empty()) out << "constexpr Tower towers[] = {\n" << towers << "};\n";
  if (graph.assistant)
    out << "constexpr AssistantShape assistant = {.text = " << shape_literal(graph.assistant->text)
        << ", .target_hidden = " << graph.assistant->target_hidden << ", .centroids = " << graph.assistant->centroids
        << ", .centroids_used = " << graph.assistant->centroids_used << "};\n";

  if (graph.dflash) out << "constexpr DFlashShape dflash = " << dflash_literal(*graph.dflash) << ";\n";

  out << "\n}  // namespace\n\nextern const Graph " << symbol << ";\nconstexpr Graph " << symbol << " = {\n  .name = "
      << quoted(graph.name) << ",\n  .shape = " << shape_literal(graph.shape) << ",\n  .assistant = "
      << (graph.assistant ? "&assistant" : "nullptr") << ",\n  .dflash = " << (graph.dflash ? "&dflash" : "nullptr") << ",\n  .chunk_max = " << graph.chunk_max
      << ",\n  .verify_max = " << graph.verify_max << ",\n  .weights = weights,\n  .constants = constants,\n  .segments = {"
      << segments << "},\n" << (towers.empty() ? "" : "  .towers = towers,\n") << "};\n\n}  // namespace lapidary::graph\n";
}

void emit_registry(std::ostream& out, const std::vector<std::string>& symbols) {
  out << "// Generated by lapidary-codegen: the graphs compiled into this program.\n"
      << "#include \"graph/graph.hpp\"\n\nnamespace lapidary::graph {\n\n";
  for (const std::string& symbol : symbols) out << "extern const Graph " << symbol << ";\n";
  out << "\nnamespace {\nconst Graph* const all[] = {";
  for (const std::string& symbol : symbols) out << "&" << symbol << ", ";
  out << "};\n}  // namespace\n\nstd::span<const Graph* const> compiled_graphs() { return all; }\n\n"
      << "}  // namespace lapidary::graph\n";
}

}  // namespace lapidary::codegen
