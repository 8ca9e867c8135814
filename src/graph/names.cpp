#include "graph/graph.hpp"

namespace lapidary::graph {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::round_rows: return "round_rows";
    case Op::embed: return "embed";
    case Op::embed_pair: return "embed_pair";
    case Op::rope_angles: return "rope_angles";
    case Op::rms_norm: return "rms_norm";
    case Op::linear: return "linear";
    case Op::linear_gelu_mul: return "linear_gelu_mul";
    case Op::linear_gelu_gate: return "linear_gelu_gate";
    case Op::linear_softcap: return "linear_softcap";
    case Op::qkv_norm_rope: return "qkv_norm_rope";
    case Op::attention: return "attention";
    case Op::residual_norm: return "residual_norm";
    case Op::ple_inputs: return "ple_inputs";
    case Op::route: return "route";
    case Op::expert_gelu_mul: return "expert_gelu_mul";
    case Op::expert_linear: return "expert_linear";
    case Op::moe_combine: return "moe_combine";
    case Op::top: return "top";
    case Op::cluster_logits: return "cluster_logits";
    case Op::sample: return "sample";
    case Op::keep_draft: return "keep_draft";
    case Op::accept: return "accept";
  }
  return "";
}

std::string_view name_of(SegmentId id) {
  switch (id) {
    case SegmentId::prefill: return "prefill";
    case SegmentId::prefill_all: return "prefill_all";
    case SegmentId::draft: return "draft";
    case SegmentId::forward: return "forward";
    case SegmentId::head: return "head";
    case SegmentId::select: return "select";
  }
  return "";
}

}  // namespace lapidary::graph
