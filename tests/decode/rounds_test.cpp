// The recorded rounds of every pair of target and assistant: drafts, scores, feedback, accepted counts, streams.
#include <boost/ut.hpp>

#include <algorithm>
#include <cmath>

#include "decode/generate.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"

namespace lapidary::test::rounds_test {
namespace {

using namespace boost::ut;

constexpr float kScoresTolerance = 0.002f;          // as fixtures/README.md recommends
constexpr float kHiddenRelativeTolerance = 0.0001f;

struct RecordedRound {
  std::int32_t committed, bonus, next;
  std::vector<std::int32_t> drafts;
  int accepted;
};

std::vector<RecordedRound> recorded_rounds(const std::string& folder, int prompt, int k) {
  simdjson::dom::parser parser;
  const auto widths = parser.load(folder + "/rounds.json")["prompts"].at(prompt)["widths"];
  std::vector<RecordedRound> rounds;
  for (const simdjson::dom::element entry : widths[std::to_string(k)]["rounds"]) {
    const auto number = [&](const char* key) { return static_cast<std::int32_t>(std::int64_t(entry[key])); };
    RecordedRound& round = rounds.emplace_back();
    round.committed = number("committed");
    round.bonus = number("bonus");
    round.next = number("next");
    round.accepted = number("accepted");
    for (const std::int64_t draft : entry["drafts"]) round.drafts.push_back(static_cast<std::int32_t>(draft));
  }
  return rounds;
}

// What each draft step left behind.
struct DraftTrace {
  std::vector<float> scores, feedback, states;  // [steps, vocab], [steps, hidden], [steps, assistant's hidden]

  void see(const link::StepResult& result, const graph::Graph& graph) {
    const graph::Step& step = result.step;
    if (step.rows != graph::RowSet::draft) return;
    const auto append = [](std::vector<float>& to, const float* from, std::size_t n) { to.insert(to.end(), from, from + n); };
    const std::size_t width = result.out[0].row_bytes / sizeof(float);
    const auto last_layer = graph.assistant->text.layer_count - 1;
    if (step.op == graph::Op::residual_norm && step.layer == last_layer && step.weights[1] != graph::kNone)
      append(states, result.out[1].floats(0), result.out[1].row_bytes / sizeof(float));
    if (step.out[0] == graph::kCarry) append(feedback, result.out[0].floats(0), width);
    if (step.op == graph::Op::linear_softcap) append(scores, result.out[0].floats(0), width);
    if (step.op == graph::Op::cluster_logits) {
      std::vector<float> row(graph.shape.vocab, -INFINITY);
      const auto* tokens = reinterpret_cast<const std::int32_t*>(result.out[1].row(0));
      for (std::size_t i = 0; i < width; ++i) row[tokens[i]] = result.out[0].floats(0)[i];
      append(scores, row.data(), row.size());
    }
  }
};

float largest(std::span<const float> a) {
  float most = 0;
  for (const float x : a) most = std::max(most, std::abs(x));
  return most;
}

bool close(std::span<const float> ours, std::span<const float> expected, float tolerance) {
  if (ours.size() != expected.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (!(ours[i] == expected[i] || std::abs(ours[i] - expected[i]) <= tolerance)) return false;
  return true;
}

const suite<"recorded rounds"> recorded = [] {
  for (const Pair& pair : fixture_pairs())
    boost::ut::test("recorded rounds of " + pair.name) = [pair] {
      const Expected expected(pair.assistant + "/rounds.safetensors.xz");
      for (int prompt = 0; prompt < 2; ++prompt)
        for (const int k : {1, 2, 4}) {
          const std::string at = "prompt" + std::to_string(prompt) + ".", where = at + "k" + std::to_string(k) + ".";
          const auto ids = expected.ids(at + "input_ids"), greedy = expected.ids(at + "greedy");
          const auto rounds = recorded_rounds(pair.assistant, prompt, k);
          Loaded model(pair.target, {.context_tokens = 256}, 1 + k % 2, pair.assistant);
          decode::Session session(model.program, *model.executor);
          DraftTrace trace;
          const link::StepObserver observe = [&](const link::StepResult& result) { trace.see(result, *model.program.graph); };
          session.prefill(ids);
          std::vector<std::int32_t> stream = {session.next()};
          for (const RecordedRound& round : rounds) {
            std::vector<std::int32_t> drafts;
            decode::Session::RoundHooks hooks;
            hooks.observe = &observe;
            hooks.prune = [&](std::span<const std::int32_t> made) {
              drafts.assign(made.begin(), made.end());
              return static_cast<int>(made.size());
            };
            hooks.fill = [] {};
            expect(fatal(session.length() == round.committed)) << pair.name << where;
            expect(stream.back() == round.bonus);
            expect(fatal(session.begin_round({k, nullptr}, nullptr, hooks)));
            const decode::Session::Round played = session.end_round();
            expect(drafts == round.drafts) << pair.name << where << "committed" << round.committed;
            const graph::RoundResult& result = played.report.result;
            expect(played.drafted == k && result.accepted == round.accepted && session.next(round.accepted) == round.next);
            for (int i = 0; i <= result.accepted; ++i) expect(result.tokens[i] == session.next(i));
            stream.insert(stream.end(), result.chosen().begin(), result.chosen().end());
          }
          expect(fatal(stream.size() >= greedy.size()));
          stream.resize(greedy.size());
          expect(stream == greedy) << pair.name << where;
          expect(close(trace.scores, expected.floats(where + "scores"), kScoresTolerance)) << pair.name << where;
          const auto feedback = expected.floats(where + "feedback"), states = expected.floats(where + "states");
          expect(close(trace.feedback, feedback, kHiddenRelativeTolerance * largest(feedback))) << pair.name << where;
          expect(close(trace.states, states, kHiddenRelativeTolerance * largest(states))) << pair.name << where;
        }
    };
};

}  // namespace
}  // namespace lapidary::test::rounds_test
