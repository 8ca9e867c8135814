// The loop that every command generates through.
#include <boost/ut.hpp>

#include <cstring>

#include "decode/generate.hpp"
#include "support/cases.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/random.hpp"

namespace lapidary::test::generate_test {
namespace {

using namespace boost::ut;
using decode::Generation;
using decode::GenerateOptions;
using decode::Session;
using decode::StopReason;

const std::string kDense = kFixtures + "/models/dense-bf16";

std::vector<std::int32_t> some_prompt(int count = 12) {
  Random random(3);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(4 + random.below(240));
  return tokens;
}

std::vector<std::int32_t> sampled(Loaded& model, graph::Sampling sampling, std::span<const std::int32_t> prompt, int count = 60) {
  Session session(model.program, *model.executor);
  Generation generation(session, prompt, {.sampling = sampling, .max_tokens = count});
  return all_of(generation);
}

const suite<"generation"> generation = [] {
  "temperature 0 is greedy"_test = [] {
    Loaded model(kDense, {.context_tokens = 256});
    const auto prompt = some_prompt();
    const auto tokens = sampled(model, {.temperature = 0}, prompt);
    Session session(model.program, *model.executor);
    session.prefill(prompt);
    expect(tokens == decode::greedy(session, 60));
  };

  "a seed gives the same tokens again, another seed others"_test = [] {
    Loaded model(kDense, {.context_tokens = 256});
    const auto prompt = some_prompt();
    const auto one = sampled(model, {.temperature = 1, .top_k = 64, .top_p = 0.95f, .seed = 1}, prompt);
    expect(one == sampled(model, {.temperature = 1, .top_k = 64, .top_p = 0.95f, .seed = 1}, prompt));
    expect(one != sampled(model, {.temperature = 1, .top_k = 64, .top_p = 0.95f, .seed = 2}, prompt));
  };

  "a repetition penalty counts the prompt and all that was generated"_test = [] {
    Loaded model(kDense, {.context_tokens = 256});
    const auto prompt = some_prompt();
    const auto tokens = sampled(model, {.repetition = 100.0f}, prompt, 40);
    std::vector<std::int32_t> all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    // A logit above 0 divided by 100 loses against any token not seen yet, as long as one of those is above a fraction.
    std::sort(all.begin(), all.end());
    expect(std::adjacent_find(all.begin(), all.end()) == all.end()) << "a token came twice";
    const auto plain = sampled(model, {}, prompt, 40);
    expect(tokens != plain);
  };

  "it ends at a stop token, which is neither returned nor counted"_test = [] {
    Loaded model(kDense, {.context_tokens = 256});
    const auto prompt = some_prompt();
    const auto tokens = sampled(model, {}, prompt, 30);
    const std::int32_t stop = tokens[20];
    const auto first = static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), stop) - tokens.begin());
    Session session(model.program, *model.executor);
    Generation generation(session, prompt, {.stop_ids = {&stop, 1}});
    expect(all_of(generation) == std::vector(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(first)));
    expect(generation.reason() == StopReason::stop_token && generation.stop_token() == stop);
    expect(generation.count() == static_cast<std::int32_t>(first));
    expect(!generation.next().has_value());
  };

  "it ends at max_tokens and when the context is full"_test = [] {
    Loaded model(kDense, {.context_tokens = 40});
    const auto prompt = some_prompt();
    {
      Session session(model.program, *model.executor);
      Generation generation(session, prompt, {.max_tokens = 5});
      expect(all_of(generation).size() == 5u && generation.reason() == StopReason::max_tokens);
    }
    Session session(model.program, *model.executor);
    Generation generation(session, prompt, {});
    expect(all_of(generation).size() == 29u);  // 28 more positions, and one token that needs none
    expect(generation.reason() == StopReason::context && session.length() == 40);
  };

  "a prompt that does not fit is refused"_test = [] {
    Loaded model(kDense, {.context_tokens = 10});
    Session session(model.program, *model.executor);
    expect(outcome_of([&] { Generation(session, some_prompt(11), {}); }) == "usage");
  };
};

const suite<"prefix reuse"> prefix_reuse = [] {
  "a text that begins like the last one continues from there with the same bytes"_test = [] {
    for (const char* name : {"dense-bf16", "ple-4bit", "moe-mixed"}) {
      Loaded model(kFixtures + "/models/" + name, {.context_tokens = 256});
      auto tokens = some_prompt(60);
      Session fresh(model.program, *model.executor);
      fresh.prefill(tokens);
      const std::vector<float> expected(fresh.logits().begin(), fresh.logits().end());

      Session session(model.program, *model.executor);
      auto other = tokens;
      for (std::size_t i = 45; i < other.size(); ++i) other[i] ^= 1;
      session.prefill(other);
      expect(session.keep_common_prefix(tokens) == 45_i);
      session.prefill(std::span(tokens).subspan(45));
      expect(std::memcmp(session.logits().data(), expected.data(), expected.size() * sizeof(float)) == 0) << name;
    }
  };

  "the last token is always computed again, for its logits"_test = [] {
    Loaded model(kDense, {.context_tokens = 64});
    Session session(model.program, *model.executor);
    const auto tokens = some_prompt(20);
    session.prefill(tokens);
    expect(session.keep_common_prefix(tokens) == 19_i);
  };

  "what a ring has overwritten is not reused"_test = [] {
    Loaded model(kDense, {.context_tokens = 256, .chunk_rows = 8});  // window 16: rings of 64 positions
    Session session(model.program, *model.executor);
    const auto tokens = some_prompt(200);
    session.prefill(tokens);
    expect(session.can_rollback(199) && session.can_rollback(152) && !session.can_rollback(150) && session.can_rollback(0));
    expect(session.keep_common_prefix(std::span(tokens).first(100)) == 0_i);

    session.prefill(tokens);
    expect(session.keep_common_prefix(std::span(tokens).first(170)) == 169_i);
    session.prefill(std::span(tokens).subspan(169));
    const std::vector<float> reused(session.logits().begin(), session.logits().end());
    Session fresh(model.program, *model.executor);
    fresh.prefill(tokens);
    expect(std::memcmp(fresh.logits().data(), reused.data(), reused.size() * sizeof(float)) == 0);
  };
};

}  // namespace
}  // namespace lapidary::test::generate_test
