#include "graph/graph.hpp"

namespace lapidary::graph {

std::string_view name_of(SegmentId id) {
  switch (id) {
    case SegmentId::prefill: return "prefill";
    case SegmentId::prefill_all: return "prefill_all";
    case SegmentId::draft: return "draft";
    case SegmentId::forward: return "forward";
    case SegmentId::head: return "head";
    case SegmentId::select: return "select";
    case SegmentId::extend: return "extend";
    case SegmentId::catch_up: return "catch_up";
    case SegmentId::block: return "block";
  }
  return "";
}

}  // namespace lapidary::graph
