// Stage 5: the graph as constexpr C++.
#include <algorithm>
#include <charconv>
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
  }
  return "";
}
const char* spelled(Owner owner) { return owner == Owner::target ? "Owner::target" : "Owner::assistant"; }
const char* spelled(WeightClass kind) {
  switch (kind) {
    case WeightClass::embedding: return "WeightClass::embedding";
    case WeightClass::matrix: return "WeightClass::matrix";
    case WeightClass::experts: return "WeightClass::experts";
    case WeightClass::vector: return "WeightClass::vector";
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

std::string step_literal(const Step& step, const std::string& after) {
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
  m.add("dims", dims_literal(step.dims));
  if (!after.empty()) m.add("after", after);
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

void emit_segment(std::ostream& out, const Segment& segment, const std::string& prefix) {
  out << "constexpr Buffer " << prefix << "_buffers[] = {\n";
  for (const Buffer& buffer : segment.buffers)
    out << "  {" << quoted(buffer.name) << ", " << spelled(buffer.region) << ", " << buffer.row_bytes << ", "
        << buffer.offset << "},\n";
  out << "};\n";

  // All waits in one array; each step holds a piece of it.
  std::string waits;
  std::vector<std::string> after;
  std::size_t at = 0;
  for (const Step& step : segment.steps) {
    after.push_back(step.after.empty() ? "" : "std::span(" + prefix + "_after).subspan(" + std::to_string(at) + ", " +
                                                 std::to_string(step.after.size()) + ")");
    for (const auto wait : step.after) waits += std::to_string(wait) + ", ";
    at += step.after.size();
  }
  if (at) out << "constexpr std::int16_t " << prefix << "_after[] = {" << waits << "};\n";
  if (segment.steps.empty()) return;
  out << "constexpr Step " << prefix << "_steps[] = {\n";
  for (std::size_t i = 0; i < segment.steps.size(); ++i)
    out << "  " << step_literal(segment.steps[i], after[i]) << ",\n";
  out << "};\n";
}

}  // namespace

void emit_graph(std::ostream& out, const Graph& graph, const std::string& symbol) {
  out << "// Generated by lapidary-codegen: the graph of " << graph.name << ".\n"
      << "#include \"graph/graph.hpp\"\n\nnamespace lapidary::graph {\nnamespace {\n\n";
  out << "constexpr WeightSlot weights[] = {\n";
  for (const WeightSlot& slot : graph.weights)
    out << "  {" << quoted(slot.name) << ", " << spelled(slot.owner) << ", " << spelled(slot.kind) << ", " << slot.experts << ", " << slot.rows << ", "
        << slot.cols << "},\n";
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

  std::string segments;
  for (int id = 0; id < kSegmentCount; ++id) {
    const std::string prefix(name_of(static_cast<SegmentId>(id)));
    const Segment& segment = graph.segments[id];
    emit_segment(out, segment, prefix);
    std::string bytes;
    for (const std::int64_t region_bytes : segment.region_bytes) bytes += literal(region_bytes) + ", ";
    segments += "Segment{" + prefix + "_buffers, " + (segment.steps.empty() ? "{}" : prefix + "_steps") + ", {" + bytes + "}}, ";
  }
  if (graph.assistant)
    out << "constexpr AssistantShape assistant = {.text = " << shape_literal(graph.assistant->text)
        << ", .target_hidden = " << graph.assistant->target_hidden << ", .centroids = " << graph.assistant->centroids
        << ", .centroids_used = " << graph.assistant->centroids_used << "};\n";

  out << "\n}  // namespace\n\nextern const Graph " << symbol << ";\nconstexpr Graph " << symbol << " = {\n  .name = "
      << quoted(graph.name) << ",\n  .shape = " << shape_literal(graph.shape) << ",\n  .assistant = "
      << (graph.assistant ? "&assistant" : "nullptr") << ",\n  .chunk_max = " << graph.chunk_max
      << ",\n  .verify_max = " << graph.verify_max << ",\n  .weights = weights,\n  .constants = constants,\n  .segments = {"
      << segments << "},\n};\n\n}  // namespace lapidary::graph\n";
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
