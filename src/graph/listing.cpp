#include "graph/listing.hpp"

#include <cstdio>
#include <map>
#include <set>
#include <string>

namespace lapidary::graph {
namespace {

std::string_view name_of(RowSet rows) {
  switch (rows) {
    case RowSet::chunk: return "chunk";
    case RowSet::last: return "last";
    case RowSet::verify: return "verify";
    case RowSet::draft: return "draft";
    case RowSet::pending: return "pending";
    case RowSet::block: return "block";
    case RowSet::block_causal: return "causal";
    case RowSet::percept: return "percept";
    case RowSet::halved: return "halved";
    case RowSet::soft: return "soft";
    case RowSet::distances: return "distances";
  }
  return "";
}

std::int64_t output_width(const Step& step) { return step.dims->n[0] + step.dims->n[1] + step.dims->n[2]; }

std::int64_t grid_of(const Step& step) {
  switch (info_of(step.op).grid) {
    case Grid::row: return 1;
    case Grid::outputs: return output_width(step);
    case Grid::picks: return step.dims->experts_used * output_width(step);
    case Grid::heads: return step.dims->heads;
    case Grid::kv_heads: return step.dims->heads + (step.dims->owns_kv ? 2 * step.dims->kv_heads : 0);
  }
  return 1;
}

std::string kernel_of(const Step& step) {
  std::string text(name_of(step.op));
  if (step.dims->k) text += " " + std::to_string(step.dims->k) + "x" + std::to_string(output_width(step));
  if (info_of(step.op).kv != Kv::none) {
    text += " " + std::to_string(step.dims->heads) + "/" + std::to_string(step.dims->kv_heads) + "x" +
            std::to_string(step.dims->head_dim);
    if (step.dims->window) text += " w" + std::to_string(step.dims->window);
    if (step.dims->values_are_keys) text += " v=k";
  }
  return text;
}

class Listing {
 public:
  Listing(std::ostream& out, const Graph& graph, const WeightLookup& lookup) : out_(out), graph_(graph), lookup_(lookup) {}

  void write() {
    const Shape& shape = graph_.shape;
    out_ << "graph " << graph_.name << ": " << shape.layer_count << " layers, hidden " << shape.hidden << ", vocabulary "
         << shape.vocab << ", chunk " << graph_.chunk_max << ", verify " << graph_.verify_max << ", "
         << graph_.weights.size() << " weights" << (graph_.assistant ? ", with assistant" : "") << (graph_.dflash ? ", with dflash" : "") << "\n";
    for (int id = 0; id < kSegmentCount; ++id) segment(name_of(static_cast<SegmentId>(id)), graph_.segments[id]);
    for (const Tower& tower : graph_.towers) segment(tower.sense == Sense::vision ? "vision" : "audio", tower.segment);
    out_ << "\nkernels\n";
    for (const std::string& kernel : kernels_) out_ << "  " << kernel << "\n";
  }

 private:
  void segment(std::string_view name, const Segment& segment) {
    out_ << "\nsegment " << name << ": " << segment.steps.size() << " steps, bytes per row " << segment.bytes(Region::rows)
         << ", output row " << segment.bytes(Region::outputs) << ", draft " << segment.bytes(Region::draft) << "\n";
    std::map<std::string, int> seen;  // text of a layer -> the layer that printed it
    for (std::size_t at = 0; at < segment.steps.size();) {
      const int layer = segment.steps[at].layer;
      std::string text;
      std::size_t count = 0;
      for (; at + count < segment.steps.size() && segment.steps[at + count].layer == layer; ++count)
        text += line(segment, at + count);
      at += count;
      if (layer == kOutsideLayers) {
        out_ << text;
      } else if (const auto [first, fresh] = seen.emplace(text, layer); fresh) {
        out_ << " layer " << layer << ": " << count << " steps\n" << text;
      } else {
        out_ << " layer " << layer << ": as layer " << first->second << "\n";
      }
    }
  }

  std::string line(const Segment& segment, std::size_t index) {
    const Step& step = segment.steps[index];
    kernels_.insert(kernel_of(step));
    std::string weights;
    std::int64_t amount = 0;
    for (const WeightId id : step.weights) {
      if (id == kNone) continue;
      weights += " " + weight(step, id);
      amount += weight_amount(step, id);
    }
    std::int64_t read = 0, written = 0;
    const std::string in = buffers(segment, step.in, read), out = buffers(segment, step.out, written);
    std::string after;
    for (const auto wait : segment.waits_of(step)) after += " -" + std::to_string(index - static_cast<std::size_t>(wait));

    char text[160];
    std::snprintf(text, sizeof text, "  %-38s %-6s x%-7lld w %10lld  r %7lld  w %7lld ", kernel_of(step).c_str(),
                  std::string(name_of(step.rows)).c_str(), static_cast<long long>(grid_of(step)),
                  static_cast<long long>(amount), static_cast<long long>(read), static_cast<long long>(written));
    std::string line = text + in + " ->" + out;
    if (reads_kv(step) || writes_kv(step))
      line += step.rows != RowSet::draft && step.dims->kv_layer == step.layer ? " kv own" : " kv " + std::to_string(step.dims->kv_layer);
    if (!weights.empty()) line += " |" + weights;
    if (!after.empty()) line += " | after" + after;
    return line + (step.tap != kNone ? " | tap\n" : "\n");
  }

  // Names inside a layer are printed without its prefix, so that equal layers read the same.
  std::string weight(const Step& step, WeightId id) const {
    std::string name(graph_.weights[id].name);
    if (step.layer != kOutsideLayers)
      for (const int layer : {step.layer + 0, step.layer + 1}) {
        const std::string prefix = "layers." + std::to_string(layer) + ".";
        if (const std::size_t at = name.find(prefix); at != std::string::npos) {
          name = (layer == step.layer ? "" : "next.") + name.substr(at + prefix.size());
          break;
        }
      }
    const bool drafts = step.rows >= RowSet::draft && step.rows <= RowSet::block_causal;
    if (drafts && graph_.weights[id].owner == Owner::target) name = "target." + name;
    return lookup_ ? name + ":" + lookup_(step, id).storage : name;
  }

  std::int64_t weight_amount(const Step& step, WeightId id) const {
    if (lookup_) return lookup_(step, id).bytes;
    const WeightSlot& slot = graph_.weights[id];
    if (slot.kind == WeightClass::ids) return grid_of(step);
    const Reads reads = info_of(step.op).reads;
    const std::int64_t rows = reads == Reads::row ? 1 : reads == Reads::listed ? grid_of(step) : slot.rows;
    const std::int64_t matrices = slot.kind == WeightClass::experts ? step.dims->experts_used : 1;
    return matrices * rows * slot.cols;
  }

  std::string buffers(const Segment& segment, std::span<const BufferId> ids, std::int64_t& bytes) const {
    std::string text;
    for (const BufferId id : ids) {
      if (id == kNone) continue;
      const Buffer& buffer = segment.buffers[id];
      text += " " + std::string(buffer.name) + "@" + std::to_string(buffer.offset);
      bytes += buffer.row_bytes;
    }
    return text;
  }

  std::ostream& out_;
  const Graph& graph_;
  const WeightLookup& lookup_;
  std::set<std::string> kernels_;
};

}  // namespace

void write_listing(std::ostream& out, const Graph& graph, const WeightLookup& lookup) { Listing(out, graph, lookup).write(); }

}  // namespace lapidary::graph
