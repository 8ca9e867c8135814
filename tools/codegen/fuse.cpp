// Stage 3: primitives become steps, as the table of ops says (graph/op_table.hpp). What goes together is found by who takes whose
// results, wherever it stands in the list.
#include <algorithm>
#include <cassert>
#include <map>
#include <queue>
#include <span>

#include "flow.hpp"
#include "stages.hpp"

namespace lapidary::codegen {
namespace {

using graph::Op;
using graph::OpInfo;
using graph::Part;
using graph::Primitive;
using graph::Takes;

template <class T>
bool contains(const std::vector<T>& list, const T& item) { return std::ranges::find(list, item) != list.end(); }

template <class T>
void add_once(std::vector<T>& list, T item) {
  if (!contains(list, item)) list.push_back(item);
}

void take_over(std::int32_t& mine, std::int32_t theirs) { if (!mine) mine = theirs; }
void take_over(float& mine, float theirs) { if (mine == 0.0f) mine = theirs; }
void take_over(bool& mine, bool theirs) { mine |= theirs; }
void take_over(std::array<std::int32_t, 3>& mine, const std::array<std::int32_t, 3>& theirs) {
  for (std::size_t i = 0; i < mine.size(); ++i) take_over(mine[i], theirs[i]);
}

// The primitives of a step by the parts of its op; none where a part is absent.
using PartMembers = std::vector<std::vector<int>>;

std::vector<int> all_of(const PartMembers& members) {
  std::vector<int> all;
  for (const std::vector<int>& part : members) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class Fusion {
 public:
  explicit Fusion(const Lowered& lowered)
      : nodes_(lowered.nodes), last_pinned_(lowered.last_pinned), flow_(nodes_), group_of_(nodes_.size(), -1) {
    // Where several would do, that whose result was named first.
    for (int node = 0; node < static_cast<int>(nodes_.size()); ++node) by_kind_[nodes_[node].kind].push_back(node);
    for (auto& [kind, list] : by_kind_)
      std::ranges::sort(list, {}, [&](int node) { return std::pair(nodes_[node].out.empty() ? -1 : nodes_[node].out[0], node); });
  }

  std::vector<Node> run() {
    std::vector<const OpInfo*> ops;
    for (const OpInfo& info : graph::table::kOps) ops.push_back(&info);
    std::ranges::sort(ops, {}, [](const OpInfo* info) { return std::pair(-info->part_count(), info->op); });
    for (const OpInfo* info : ops)
      for (const int first : by_kind_[info->parts[0].primitive]) {
        PartMembers members(static_cast<std::size_t>(info->part_count()));
        if (group_of_[first] >= 0) continue;
        members[0] = {first};
        if (!fits(*info, 1, members)) continue;
        for (const int node : all_of(members)) group_of_[node] = static_cast<int>(groups_.size());
        groups_.push_back({info, std::move(members)});
      }
    assert(!contains(group_of_, -1) && "every primitive is part of an op");
    return in_order();
  }

 private:
  struct Group {
    const OpInfo* info;
    PartMembers members;
  };

  // Finds the parts from this one on, as many of each as there are.
  bool fits(const OpInfo& info, int index, PartMembers& members) {
    if (index == info.part_count()) return !closes_circle(all_of(members));
    const Part& part = info.parts[static_cast<std::size_t>(index)];
    std::vector<int>& mine = members[static_cast<std::size_t>(index)];
    if (static_cast<int>(mine.size()) < part.most)
      for (const int node : by_kind_[part.primitive]) {
        if (!may_be(info, part, node, members)) continue;
        mine.push_back(node);
        if (fits(info, index, members)) return true;
        mine.pop_back();
      }
    return static_cast<int>(mine.size()) >= part.least && fits(info, index + 1, members);
  }

  bool may_be(const OpInfo& info, const Part& part, int node, const PartMembers& members) const {
    const Node& first = nodes_[members[0][0]];
    if (group_of_[node] >= 0 || nodes_[node].rows != first.rows || nodes_[node].layer != first.layer) return false;
    if (contains(all_of(members), node)) return false;
    return takes(info, part.takes.first, node, 0, members) && takes(info, part.takes.second, node, 1, members);
  }

  // Whether the operand is the result of part `source`.
  bool takes(const OpInfo& info, int source, int node, std::size_t operand, const PartMembers& members) const {
    if (source == Takes::kAny) return true;
    while (source != Takes::kAny && members[static_cast<std::size_t>(source)].empty())
      source = info.parts[static_cast<std::size_t>(source)].takes.first;
    return source != Takes::kAny && flow_.producer(node, operand) == members[static_cast<std::size_t>(source)][0];
  }

  // Whether something outside would have to run both after and before these, which are to be one step.
  bool closes_circle(const std::vector<int>& members) const {
    if (members.size() == 1) return false;
    std::vector<bool> seen(nodes_.size());
    std::vector<int> open;
    const auto follow = [&](const std::vector<int>& from) {
      for (const int node : from)
        for (const int next : flow_.followers(node))
          if (!seen[next] && !(contains(members, next) && contains(members, node))) open.push_back(next), seen[next] = true;
    };
    follow(members);
    while (!open.empty()) {
      const int node = open.back();
      open.pop_back();
      if (contains(members, node)) return true;
      follow(group_of_[node] >= 0 ? all_of(groups_[group_of_[node]].members) : std::vector{node});
    }
    return false;
  }

  // As the primitives stood in the list, as far as their waits allow.
  std::vector<Node> in_order() const {
    const int count = static_cast<int>(groups_.size());
    std::vector<std::vector<int>> followers(groups_.size());
    std::vector<int> waits(groups_.size()), place(groups_.size());
    for (int group = 0; group < count; ++group) {
      const std::vector<int> members = all_of(groups_[group].members);
      place[group] = std::ranges::min(members);
      for (const int node : members)
        for (const int next : flow_.followers(node))
          if (group_of_[next] != group && !contains(followers[group], group_of_[next])) {
            followers[group].push_back(group_of_[next]);
            ++waits[group_of_[next]];
          }
    }
    const auto later = [&](int a, int b) { return place[a] > place[b]; };
    std::priority_queue<int, std::vector<int>, decltype(later)> ready(later);
    for (int group = 0; group < count; ++group)
      if (waits[group] == 0) ready.push(group);
    std::vector<Node> steps;
    while (!ready.empty()) {
      const int group = ready.top();
      ready.pop();
      steps.push_back(merge(groups_[group]));
      for (const int next : followers[group])
        if (--waits[next] == 0) ready.push(next);
    }
    assert(static_cast<int>(steps.size()) == count);
    return steps;
  }

  Node merge(const Group& group) const {
    const std::vector<int> members = all_of(group.members);
    const auto is_taken_outside = [&](int producer, ValueId value) {
      return std::ranges::any_of(flow_.followers(producer), [&](int node) {
        if (contains(members, node)) return false;
        for (std::size_t operand = 0; operand < nodes_[node].in.size(); ++operand)
          if (nodes_[node].in[operand] == value && flow_.producer(node, operand) == producer) return true;
        return false;
      });
    };
    Node step = nodes_[members[0]];
    step.fused = group.info->op;
    step.in.clear(), step.out.clear(), step.weights.clear();
    std::vector<ValueId> made;
    for (std::size_t index = 0; index < group.members.size(); ++index) {
      if (group.members[index].empty() && group.info->parts[index].keeps_place) step.weights.push_back(graph::kNone);
      for (const int node : group.members[index]) {
        const Node& part = nodes_[node];
        for (const ValueId in : part.in)
          if (!contains(made, in)) add_once(step.in, in);
        for (const ValueId out : part.out) {
          made.push_back(out);
          if (members.size() == 1 || contains(step.in, out) || out <= last_pinned_ || is_taken_outside(node, out)) add_once(step.out, out);
        }
        step.weights.insert(step.weights.end(), part.weights.begin(), part.weights.end());
        graph::for_each_dim([](const char*, auto& mine, const auto& theirs) { take_over(mine, theirs); }, step.dims, part.dims);
        step.tap = std::max(step.tap, part.tap);
      }
    }
    // What is updated in place comes first among the inputs.
    const auto in_place = std::ranges::find_if(step.in, [&](ValueId in) { return contains(step.out, in); });
    if (in_place != step.in.end()) std::rotate(step.in.begin(), in_place, in_place + 1);
    return step;
  }

  const std::vector<Node>& nodes_;
  const ValueId last_pinned_;
  const Flow flow_;
  std::map<Primitive, std::vector<int>> by_kind_;
  std::vector<int> group_of_;  // by node; -1 = none yet
  std::vector<Group> groups_;
};

// Products of one input become one step with one output, the results side by side in the order in which they were named.
void join_products(Lowered& lowered) {
  auto& nodes = lowered.nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto joins = [&](const Node& node) {
      return node.fused == Op::linear && node.out[0] > lowered.last_pinned && node.in == nodes[i].in && node.rows == nodes[i].rows &&
             node.layer == nodes[i].layer;
    };
    if (!joins(nodes[i])) continue;
    std::vector<std::size_t> joined;
    for (std::size_t j = i; j < nodes.size() && !contains(nodes[j].out, nodes[i].in[0]); ++j)
      if (joins(nodes[j])) joined.push_back(j);
    if (joined.size() == 1) continue;
    std::ranges::sort(joined, {}, [&](std::size_t node) { return nodes[node].out[0]; });
    joined.resize(std::min<std::size_t>(joined.size(), 3));

    Node step = nodes[joined[0]];
    step.weights.clear();
    Value value;
    std::vector<ValueId> old;
    for (std::size_t j = 0; j < joined.size(); ++j) {
      const Node& node = nodes[joined[j]];
      const Value& result = lowered.values[node.out[0]];
      value.name += result.name;
      value.row_bytes += result.row_bytes;
      value.region = result.region;
      old.push_back(node.out[0]);
      step.weights.push_back(node.weights[0]);
      step.dims.n[j] = node.dims.n[0];
    }
    lowered.values.push_back(value);
    const auto id = static_cast<ValueId>(lowered.values.size() - 1);
    step.out = {id};
    nodes[std::ranges::min(joined)] = step;
    joined.erase(std::ranges::min_element(joined));
    std::ranges::sort(joined, std::greater());
    for (const std::size_t node : joined) nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(node));
    for (Node& node : nodes) {
      std::vector<ValueId> in;
      for (const ValueId one : node.in) add_once(in, contains(old, one) ? id : one);
      node.in = std::move(in);
    }
  }
}

}  // namespace

void fuse(Lowered& lowered) {
  lowered.nodes = Fusion(lowered).run();
  join_products(lowered);
}

}  // namespace lapidary::codegen
