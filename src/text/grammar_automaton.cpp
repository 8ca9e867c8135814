#include "text/grammar_automaton.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "checkpoint/error.hpp"

namespace lapidary::text {
namespace {

// Some 20 MB: far above what people write, low enough for what an attacker does.
constexpr std::size_t kMaxStates = 1u << 18;
constexpr std::size_t kMaxEdges = 1u << 20;

void check_size(std::size_t size, std::size_t most, std::string_view unit) {
  if (size <= most) return;
  fail(ErrorKind::unsupported, "schema",
       "size of the grammar, expected at most " + std::to_string(most) + " " + std::string(unit) + ", got more");
}

// The edges that lead to a state, or call it.
struct Backward {
  std::vector<std::uint32_t> first;  // by state
  std::vector<std::uint32_t> edges;  // indices of edges
};

Backward backward(const Automaton& automaton) {
  const auto each_end = [&](auto&& visit) {
    for (std::uint32_t i = 0; i < automaton.edges.size(); ++i) {
      visit(automaton.edges[i].target, i);
      if (automaton.edges[i].kind == Edge::Kind::call) visit(automaton.edges[i].rule, i);
    }
  };
  Backward result;
  result.first.resize(automaton.states.size() + 1);
  each_end([&](StateId state, std::uint32_t) { ++result.first[state + 1]; });
  for (std::size_t s = 1; s < result.first.size(); ++s) result.first[s] += result.first[s - 1];
  result.edges.resize(result.first.back());
  std::vector<std::uint32_t> next(result.first.begin(), result.first.end() - 1);
  each_end([&](StateId state, std::uint32_t edge) { result.edges[next[state]++] = edge; });
  return result;
}

// Heights in ascending order, so that each is final when it is found: a height depends on lower or equal ones only.
void find_heights(Automaton& automaton, const std::vector<StateId>& from_of_edge) {
  const Backward leading_to = backward(automaton);
  std::array<std::vector<StateId>, kMaxNesting + 1> found;
  for (StateId s = 0; s < automaton.states.size(); ++s) {
    if (automaton.states[s].ends_rule) found[0].push_back(s);
  }
  for (std::uint32_t height = 0; height <= kMaxNesting; ++height) {
    while (!found[height].empty()) {
      const StateId state = found[height].back();
      found[height].pop_back();
      if (automaton.states[state].height != kEndless) continue;
      automaton.states[state].height = height;
      for (std::uint32_t i = leading_to.first[state]; i < leading_to.first[state + 1]; ++i) {
        const Edge& edge = automaton.edges[leading_to.edges[i]];
        std::uint32_t reached = automaton.states[edge.target].height;
        if (edge.kind == Edge::Kind::call) {
          reached = std::max(reached, automaton.states[edge.rule].height + edge.nesting);
        }
        if (reached <= kMaxNesting) found[reached].push_back(from_of_edge[leading_to.edges[i]]);
      }
    }
  }
}

}  // namespace

StateId AutomatonBuilder::state() {
  check_size(states_.size() + 1, kMaxStates, "states");
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

void AutomatonBuilder::add(StateId from, const Edge& edge) {
  check_size(edges_.size() + 1, kMaxEdges, "edges");
  edges_.push_back({from, edge});
}

void AutomatonBuilder::byte(StateId from, std::uint8_t low, std::uint8_t high, StateId to) {
  add(from, {Edge::Kind::byte, low, high, 0, to, 0});
}

StateId AutomatonBuilder::text(StateId from, std::string_view bytes) {
  for (const char c : bytes) {
    const StateId next = state();
    byte(from, c, next);
    from = next;
  }
  return from;
}

void AutomatonBuilder::empty(StateId from, StateId to) { add(from, {Edge::Kind::empty, 0, 0, 0, to, 0}); }

void AutomatonBuilder::call(StateId from, StateId rule, StateId to, std::uint8_t nesting) {
  add(from, {Edge::Kind::call, 0, 0, nesting, to, rule});
}

void AutomatonBuilder::inside_string(StateId state, std::uint32_t characters_left) {
  states_[state].in_string = true;
  states_[state].characters_left = static_cast<std::uint8_t>(std::min(characters_left, kMaxPlainCharacters));
}

Automaton AutomatonBuilder::finish(StateId start) {
  std::ranges::sort(edges_, {}, [](const Placed& placed) {
    return std::tuple(placed.from, placed.edge.kind, placed.edge.low, placed.edge.target, placed.edge.rule);
  });
  Automaton automaton{std::move(states_), {}, start};
  std::vector<StateId> from_of_edge;
  for (const Placed& placed : edges_) {
    automaton.edges.push_back(placed.edge);
    from_of_edge.push_back(placed.from);
  }
  std::uint32_t edge = 0;
  for (StateId s = 0; s < automaton.states.size(); ++s) {
    State& state = automaton.states[s];
    state.first = edge;
    while (edge < edges_.size() && edges_[edge].from == s && edges_[edge].edge.kind == Edge::Kind::byte) ++edge;
    state.bytes_end = edge;
    while (edge < edges_.size() && edges_[edge].from == s) ++edge;
    state.end = edge;
  }
  edges_.clear();
  find_heights(automaton, from_of_edge);
  return automaton;
}

}  // namespace lapidary::text
