// Readings of small automata: no way into a dead end, and ambiguity that does not grow.
#include <boost/ut.hpp>

#include "text/grammar_readings.hpp"

namespace lapidary::test::grammar_readings_test {
namespace {

using namespace boost::ut;
using text::AutomatonBuilder;
using text::StateId;
using text::Walk;

// The readings after a text; nothing when none is left.
std::optional<text::Readings> after(const text::Automaton& automaton, std::string_view bytes) {
  Walk walk(automaton);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!walk.step(i, static_cast<std::uint8_t>(bytes[i]))) return std::nullopt;
  }
  text::Readings readings;
  walk.get(readings);
  return readings;
}

suite<"readings of an automaton"> readings_suite = [] {
  boost::ut::test("a rule is not entered when nothing can follow it") = [] {
    AutomatonBuilder builder;
    const StateId start = builder.state(), rule = builder.state(), end = builder.state(), dead = builder.state();
    builder.end_rule(end);
    builder.byte(rule, 'x', end);
    builder.call(builder.text(start, "a"), rule, dead, 0);
    builder.byte(start, 'b', end);
    const StateId both = builder.text(start, "c");
    builder.call(both, rule, dead, 0);
    builder.call(both, rule, end, 0);
    builder.byte(both, 'y', end);
    const text::Automaton automaton = builder.finish(start);
    expect(!after(automaton, "a") && after(automaton, "b")->complete);
    expect(after(automaton, "cx")->complete && after(automaton, "cy")->complete);
    expect(after(automaton, "c")->returns.size() == 1_ul) << "the call that leads nowhere";
  };

  boost::ut::test("readings that made the same calls are one") = [] {
    // Two rules for the same brackets, each with both inside: 2^depth ways to read them.
    AutomatonBuilder builder;
    const StateId start = builder.state(), end = builder.state();
    builder.end_rule(end);
    for (int i = 0; i < 2; ++i) {
      const StateId inner = builder.text(start, "["), close = builder.state();
      builder.call(inner, start, close, 1);
      builder.byte(inner, ']', end);
      builder.byte(close, ']', end);
    }
    const text::Automaton automaton = builder.finish(start);
    const auto deep = after(automaton, std::string(60, '['));
    expect(deep->tops.size() <= 4_ul && deep->returns.size() <= 120_ul);
    expect(after(automaton, std::string(60, '[') + std::string(60, ']'))->complete);
    expect(!after(automaton, std::string(66, '[')));
  };

  boost::ut::test("steps can be taken back") = [] {
    AutomatonBuilder builder;
    const StateId start = builder.state(), end = builder.state();
    builder.end_rule(end);
    for (const char c : {'b', 'c'}) builder.byte(builder.text(start, std::string("a") + c), 'd', end);
    const text::Automaton automaton = builder.finish(start);
    Walk walk(automaton);
    expect(walk.step(0, 'a') && walk.step(1, 'b') && !walk.step(2, 'x') && walk.step(1, 'c') && !walk.step(1, 'd'));
    text::Readings readings;
    expect(walk.step(1, 'b') && walk.step(2, 'd'));
    walk.get(readings);
    expect(readings.complete);
  };
};

}  // namespace
}  // namespace lapidary::test::grammar_readings_test
