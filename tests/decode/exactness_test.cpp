// The check that users run on their machines finds what it should: nothing on a sound backend, the right step on a spoilt one.
#include <boost/ut.hpp>

#include "decode/exactness.hpp"
#include "support/model.hpp"
#include "support/observed_executor.hpp"
#include "support/pairs.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::exactness_test {
namespace {

using namespace boost::ut;

constexpr int kPositions = kSlowBuild ? 50 : 150;

const suite<"exactness"> exactness = [] {
  "a sound backend passes on every kind of model"_test = [] {
    for (const Pair& pair : fixture_pairs()) {
      Loaded model(pair.target, {.context_tokens = 256}, 2);
      decode::Session session(model.program, *model.executor);
      const decode::Exactness result = decode::check_exactness(session, kPositions);
      expect(!result.difference.has_value()) << pair.name;
      expect(result.positions == kPositions && result.blocks > kPositions / 8 && result.values > 30 * kPositions);
      expect(session.length() == 0_i);
    }
  };

  "a bit that depends on the width is found, with its step and width"_test = [] {
    const Pair pair = fixture_pairs().front();
    Loaded model(pair.target, {.context_tokens = 256});
    for (const graph::Op op : {graph::Op::linear, graph::Op::attention, graph::Op::residual_norm, graph::Op::linear_softcap})
      for (const std::size_t width : {2u, 5u, 8u}) {
        ObservedExecutor spoilt(*model.executor, [&](const link::StepResult& result) {
          if (result.step.op != op || result.rows != width || result.step.layer > 2) return;
          const_cast<float*>(result.out[0].floats(1))[3] *= 1.0000001f;
        });
        decode::Session session(model.program, spoilt);
        const auto difference = decode::check_exactness(session, kPositions).difference;
        expect(fatal(difference.has_value())) << name_of(op) << width;
        expect(difference->step->op == op && difference->width == static_cast<int>(width) && difference->row == 1);
        const std::string text = describe(*difference);
        expect(text.find(std::string(name_of(op))) == 0 && text.find("at width " + std::to_string(width)) != text.npos) << text;
      }
  };
};

}  // namespace
}  // namespace lapidary::test::exactness_test
