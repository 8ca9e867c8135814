// Answers turn by turn: what their events add up to, how they are cancelled, and several in one model.
#include <boost/ut.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <thread>

#include "engine/pebble.hpp"

namespace lapidary::test::answer_test {
namespace {

using namespace boost::ut;
using engine::Ending;

const char* const kCapital = "What is the capital of Norway?";
const char* const kStory = "Tell me a story.";

// Never stops by itself before the context is full.
engine::AnswerOptions endless(std::uint64_t seed) {
  engine::AnswerOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  options.sampling.bias = {{1, -100.0f}, {6, -100.0f}};
  return options;
}

engine::AnswerOptions greedy_options() {
  engine::AnswerOptions options;
  options.sampling.temperature = 0.0f;
  return options;
}

const suite<"answers"> answers = [] {
  "the events add up to the answer, and none comes after the end"_test = [] {
    engine::Model model(pebble_options());
    engine::Conversation conversation(model);
    engine::Answer answer(conversation, asked(model, kCapital), greedy_options());
    expect(conversation.session.length() == 0_i) << "nothing is computed before the first turn";
    std::string content;
    while (const auto event = answer.turn()) content += event->content;
    expect(content == "The capital of Norway is Oslo." && answer.result().content == content) << content;
    expect(answer.result().ending == Ending::stop);
    expect(!answer.turn());

    engine::Answer again(conversation, asked(model, kCapital), greedy_options());
    again.begin();
    expect(again.read_tokens() == again.result().prompt_tokens - 1 && again.in_prompt()) << "what was kept is known before a turn";
    expect(finish(again).content == content && again.result().reused_tokens == again.result().prompt_tokens - 1);
  };

  "a stop text, a number of tokens and a full context end it"_test = [] {
    engine::Model model(pebble_options());
    engine::Conversation conversation(model);
    conversation.drafts = decode::DraftChoice{.fixed_k = 0};  // a round for each token
    engine::AnswerOptions options = greedy_options();
    options.stops = {" Norway"};
    engine::Answer stopped(conversation, asked(model, kCapital), options);
    while (stopped.result().content != "The capital of" || stopped.wants_round()) expect(fatal(stopped.turn().has_value()));
    expect(stopped.result().ending == Ending::none) << "it has to be told, with no round before that";
    expect(finish(stopped).content == "The capital of" && stopped.result().ending == Ending::stop_text);
    options.max_tokens = 2;
    engine::Answer shorter(conversation, asked(model, kCapital), options);
    expect(finish(shorter).ids.size() == 2u && shorter.result().ending == Ending::max_tokens);
    engine::Answer full(conversation, asked(model, kStory), endless(1));
    expect(finish(full).ending == Ending::context);
  };

  "cancelling one ends that one, with what there is"_test = [] {
    engine::Model model(pebble_options(2));
    engine::Conversation first(model), second(model);
    engine::Answer cancelled(first, asked(model, kStory), endless(1)), other(second, asked(model, kCapital), greedy_options());
    while (cancelled.result().ids.size() < 10) expect(fatal(cancelled.turn().has_value()));
    std::thread([&] { cancelled.cancel(); }).join();
    expect(finish(cancelled).ending == Ending::cancelled);
    expect(cancelled.result().ids.size() == 10u && !cancelled.result().content.empty());
    expect(finish(other).content == "The capital of Norway is Oslo.") << other.result().content;

    engine::Answer next(first, asked(model, kCapital), greedy_options());
    expect(finish(next).content == "The capital of Norway is Oslo.") << "the flag was the answer's own";
  };

  "cancelled before its first turn it computes nothing"_test = [] {
    engine::Model model(pebble_options());
    engine::Conversation conversation(model);
    engine::Answer answer(conversation, asked(model, kStory), endless(1));
    answer.cancel();
    expect(finish(answer).ending == Ending::cancelled && answer.result().ids.empty());
    expect(conversation.session.length() == 0_i);
  };

  "two conversations of one model answer as each does alone, one after the other and in turns"_test = [] {
    engine::Model model(pebble_options(2));
    const auto story = [](std::uint64_t seed) {
      engine::AnswerOptions options = endless(seed);
      options.max_tokens = 40;
      return options;
    };
    std::vector<std::vector<std::int32_t>> alone;
    for (const std::uint64_t seed : {1, 2}) {
      engine::Conversation conversation(model);
      engine::Answer answer(conversation, asked(model, kStory), story(seed));
      alone.push_back(finish(answer).ids);
    }
    expect(alone[0] != alone[1]);

    engine::Conversation first(model), second(model);
    engine::Answer one(first, asked(model, kStory), story(1)), two(second, asked(model, kStory), story(2));
    expect(finish(one).ids == alone[0] && finish(two).ids == alone[1]);

    engine::Answer one_again(first, asked(model, kStory), story(1)), two_again(second, asked(model, kStory), story(2));
    for (bool more = true; more;) {
      const bool one_more = one_again.turn().has_value(), two_more = two_again.turn().has_value();
      more = one_more || two_more;
    }
    expect(one_again.result().ids == alone[0] && two_again.result().ids == alone[1]);
  };

  "log probabilities and rows are those of the answer's own tokens, whoever else had the model since"_test = [] {
    engine::ModelOptions model_options = pebble_options(2);
    model_options.draft.tokens = 3;
    engine::Model model(model_options);
    struct Rows {
      std::vector<std::int32_t> ids, likeliest;
      std::vector<float> logprobs, logits, hidden;
      bool operator==(const Rows&) const = default;
    };
    // False at the end.
    const auto take = [](engine::Answer& answer, Rows& rows) {
      const std::size_t tokens = answer.result().ids.size();
      if (!answer.turn()) return false;
      if (answer.result().ids.size() == tokens) return true;
      const decode::Logprobs& logprobs = answer.result().logprobs.back();
      rows.ids.push_back(answer.result().ids.back());
      rows.logprobs.push_back(logprobs.chosen.logprob);
      rows.likeliest.push_back(logprobs.top[0].id);
      rows.logits.push_back(answer.logits()[7]);
      rows.hidden.push_back(answer.hidden()[7]);
      return true;
    };
    const auto story = [](std::uint64_t seed) {
      engine::AnswerOptions options = endless(seed);
      options.max_tokens = 30;
      options.logprobs = 1;
      options.wants_rows = true;
      return options;
    };
    Rows alone[2], in_turns[2];
    for (const int i : {0, 1}) {
      engine::Conversation conversation(model);
      engine::Answer answer(conversation, asked(model, kStory), story(static_cast<std::uint64_t>(i)));
      while (take(answer, alone[i])) {
      }
      expect(alone[i].ids.size() == 30u && answer.result().drafts.rounds < 29_l) << "some rounds have several tokens";
    }
    engine::Conversation first(model), second(model);
    engine::Answer one(first, asked(model, kStory), story(0)), two(second, asked(model, kStory), story(1));
    for (bool more = true; more;) {
      const bool one_more = take(one, in_turns[0]), two_more = take(two, in_turns[1]);
      more = one_more || two_more;
    }
    expect(in_turns[0] == alone[0] && in_turns[1] == alone[1]);
  };

  "a seed has streams of noise, each with an answer of its own, drafts or not"_test = [] {
    engine::Model model(pebble_options());
    engine::AnswerOptions options = endless(3);
    options.max_tokens = 30;
    const auto plain = answered(model, asked(model, kStory), options, 0).ids;
    std::vector<std::vector<std::int32_t>> texts;
    for (const std::uint32_t stream : {0u, 1u, 2u}) {
      options.sampling.stream = stream;
      texts.push_back(answered(model, asked(model, kStory), options, 0).ids);
      expect(answered(model, asked(model, kStory), options, 4).ids == texts.back()) << stream;
    }
    expect(texts[0] == plain && texts[1] != plain && texts[2] != plain && texts[1] != texts[2]);
  };

  "chunks of any size and rounds with others change no byte"_test = [] {
    engine::Model model(pebble_options(3));
    const auto options = [](std::uint64_t seed) {
      engine::AnswerOptions all = endless(seed);
      all.max_tokens = 40;
      all.logprobs = 0;
      return all;
    };
    const auto same = [](const engine::Answer::Result& a, const engine::Answer::Result& b) {
      return a.ids == b.ids && std::ranges::equal(a.logprobs, b.logprobs, {}, [](const auto& l) { return l.chosen.logprob; }, [](const auto& l) { return l.chosen.logprob; });
    };
    std::vector<engine::Answer::Result> alone;
    for (const std::uint64_t seed : {0, 1, 2}) alone.push_back(answered(model, asked(model, kStory), options(seed), 2));

    engine::Conversation first(model), second(model), third(model);
    engine::Answer one(first, asked(model, kStory), options(0)), two(second, asked(model, kStory), options(1)), three(third, asked(model, kStory), options(2));
    const std::array answers{&one, &two, &three};
    int most_rows = 0, read = 0;
    for (engine::Answer* answer : answers) {
      ++most_rows;
      for (read = 0; answer->in_prompt(); read = answer->read_tokens()) {
        expect(answer->turn(most_rows).has_value());
        expect(answer->read_tokens() > read && answer->read_tokens() <= read + most_rows);
      }
      expect(read == answer->result().prompt_tokens);
    }
    int together = 0;
    for (bool more = true; more;) {
      more = false;
      for (engine::Answer* answer : answers)
        while (answer->result().ending == Ending::none && !answer->wants_round()) answer->turn();
      engine::Answer::play_together(answers);
      for (engine::Answer* answer : answers) {
        if (answer->result().ending != Ending::none) continue;
        expect(!answer->wants_round()) << "it has had one";
        ++together;
        more = true;
      }
    }
    expect(together > 30_i);
    for (const std::size_t i : {0u, 1u, 2u}) expect(same(answers[i]->result(), alone[i])) << i;
  };

  "a bias for an id that is not there is refused"_test = [] {
    engine::Model model(pebble_options());
    engine::Conversation conversation(model);
    for (const auto& bias : {std::pair{-1, 0.0f}, {model.program.graph->shape.vocab, 0.0f}, {1, INFINITY}}) {
      engine::AnswerOptions options;
      options.sampling.bias = {bias};
      const auto error = error_of([&] { engine::Answer answer(conversation, asked(model, kCapital), options); });
      expect(error && error->kind == ErrorKind::usage && error->where == "logit bias");
    }
  };
};

}  // namespace
}  // namespace lapidary::test::answer_test
