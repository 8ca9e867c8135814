// The C API gives what the engine gives: text and tokens, events and rounds, rows, forks.
#include "capi/handles.hpp"

#include <algorithm>

#include "capi/boundary.hpp"
#include "decode/logprobs.hpp"
#include "text/value.hpp"

namespace lapidary::test::answer_test {
namespace {

using namespace boost::ut;

const char* const kTools = R"([{"type":"function","function":{"name":"get_weather","description":"Weather of a city.",)"
                           R"("parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}])";

// What the engine says of the same model and question.
engine::Answer::Result by_engine(lapidary_model* model, const Question& question) {
  engine::Conversation conversation(model->model);
  std::atomic<bool> cancel = false;
  capi::Request request = capi::read_request(model->model, &question.request, cancel);
  engine::Answer answer(conversation, std::move(request.prompt), request.options);
  while (answer.turn()) {
  }
  return answer.result();
}

// Rounds of the last answer, all and by source.
struct Rounds {
  std::int64_t all = 0, mtp = 0, lookup = 0;
};

Rounds rounds_of(lapidary_session* session) {
  std::string json(8192, '\0');
  std::size_t bytes = 0;
  lapidary_statistics(session, json.data(), json.size(), &bytes, Expected());
  const text::Value stats = text::parse_json(json.substr(0, bytes), "stats");
  const text::Value& draft = *stats.find("draft");
  const auto by = [&](const char* name) { return *draft.find("rounds_by_source")->find(name)->integer(); };
  return {*draft.find("rounds")->integer(), by("mtp"), by("lookup")};
}

const suite<"the C API"> api = [] {
  "names its version"_test = [] {
    expect(std::string(lapidary_version()) == LAPIDARY_VERSION && lapidary_abi() == LAPIDARY_ABI);
    expect(std::string(lapidary_status_name(LAPIDARY_ERROR_ROOM)) == "room" && std::string(lapidary_status_name(77)) == "unknown");
  };

  "plans memory before it is allocated, and describes what was loaded"_test = [] {
    const lapidary_model_options options = small_options(2);
    lapidary_memory_plan plan = LAPIDARY_INIT(lapidary_memory_plan);
    lapidary_plan_memory(kPebble.c_str(), &options, &plan, Expected());
    expect(plan.anonymous_bytes ==
           plan.kv_bytes + plan.arena_bytes + plan.constants_bytes + plan.repacked_bytes + plan.room_bytes + plan.text_bytes + plan.tower_bytes);
    const OwnedModel model(options);
    const link::MemoryPlan& real = static_cast<lapidary_model*>(model)->model.program.plan;
    expect(plan.anonymous_bytes == real.anonymous_bytes() && plan.weights_mapped_bytes == real.weights_mapped_bytes);
    lapidary_model_info info = LAPIDARY_INIT(lapidary_model_info);
    lapidary_describe(model, &info, Expected());
    expect(info.vocab == 8192_i && info.context_tokens == 256_i && info.sessions == 2_i && info.threads == 1_i && info.round_tokens == 8_i);
    expect(info.numeric == LAPIDARY_NUMERIC_EXACT);

    lapidary_model_options poor = options;
    poor.memory_limit_bytes = plan.anonymous_bytes - 1;
    lapidary_error error = LAPIDARY_INIT(lapidary_error);
    expect(lapidary_plan_memory(kPebble.c_str(), &poor, &plan, &error) == LAPIDARY_ERROR_MEMORY) << error.message;
    poor.memory_limit_bytes = plan.anonymous_bytes;
    lapidary_plan_memory(kPebble.c_str(), &poor, &plan, Expected());
  };

  "stores K/V as it is told"_test = [] {
    const auto kv_bytes = [](lapidary_model_options options, std::int32_t kind) {
      options.kv = kind;
      lapidary_memory_plan plan = LAPIDARY_INIT(lapidary_memory_plan);
      lapidary_plan_memory(kPebble.c_str(), &options, &plan, Expected());
      return plan.kv_bytes;
    };
    const auto usual = kv_bytes(small_options(), LAPIDARY_KV_USUAL);
    expect(kv_bytes(small_options(), LAPIDARY_KV_F32) == usual);
    expect(kv_bytes(small_options(), LAPIDARY_KV_Q8) < usual && kv_bytes(small_options(), LAPIDARY_KV_Q4) < kv_bytes(small_options(), LAPIDARY_KV_Q8));
    lapidary_model_options options = small_options();
    options.kv = LAPIDARY_KV_Q8;
    const OwnedModel model(options);
    lapidary_model_info info = LAPIDARY_INIT(lapidary_model_info);
    lapidary_describe(model, &info, Expected());
    expect(info.kv == LAPIDARY_KV_Q8);
    lapidary_describe(OwnedModel(small_options()), &info, Expected());
    expect(info.kv == LAPIDARY_KV_F32);
    const OwnedSession session(model);
    lapidary_set_draft(session, LAPIDARY_DRAFT_NONE, 0, Expected());
    const Ids plain = generate(session, Question(kStory));
    lapidary_set_draft(session, LAPIDARY_DRAFT_AUTOMATIC, 0, Expected());
    expect(!plain.empty() && generate(session, Question(kStory)) == plain);

    const auto refused = [&](std::int32_t kind, const std::string& expected) {
      options.kv = kind;
      lapidary_error error = LAPIDARY_INIT(lapidary_error);
      lapidary_model* none = nullptr;
      expect(lapidary_load(kPebble.c_str(), &options, &none, &error) == LAPIDARY_ERROR_USAGE && !none);
      expect(std::string(error.message).find(expected) != std::string::npos) << error.message;
    };
    refused(LAPIDARY_KV_Q4 + 1, "[K/V] expected 0 to 4, got 5");
    refused(-1, "[K/V] expected 0 to 4, got -1");
    refused(LAPIDARY_KV_BF16, "[--kv] K/V in the exact mode, expected f32");
  };

  "tokens and text go both ways"_test = [] {
    const OwnedModel model;
    const std::string text = "Oslo <|turn> \xc3\xa9\xff";
    const Ids ids = model.tokenize(text, 0);
    expect(ids == static_cast<lapidary_model*>(model)->model.tokenizer.encode(text, text::Specials::as_text));
    expect(model.tokenize(text, LAPIDARY_TOKENIZE_SPECIALS) != ids && model.tokenize("", LAPIDARY_TOKENIZE_BOS).size() == 1u);
    std::string back(100, '\0');
    std::size_t bytes = 0;
    lapidary_detokenize(model, ids.data(), ids.size(), 0, back.data(), back.size(), &bytes, Expected());
    expect(back.substr(0, bytes) == "Oslo <|turn> \xc3\xa9\xef\xbf\xbd") << back.substr(0, bytes);
    expect(lapidary_detokenize(model, ids.data(), ids.size(), 0, nullptr, 0, &bytes, nullptr) == LAPIDARY_ERROR_ROOM && bytes == 18_u) << bytes;
  };

  "messages are rendered as the engine does"_test = [] {
    const OwnedModel model;
    Ids ids(100);
    std::size_t count = 0;
    std::int32_t reading = -1;
    lapidary_render(model, kCapital, nullptr, 0, ids.data(), ids.size(), &count, &reading, Expected());
    ids.resize(count);
    const auto prompt = engine::Prompt::of_messages(static_cast<lapidary_model*>(model)->model, text::parse_json(kCapital, ""), {}, {});
    expect(ids == prompt.ids && reading == LAPIDARY_READ_ANSWER);
    const OwnedSession session(model);
    Question of_ids(ids);
    of_ids.request.reading = reading;
    lapidary_begin(session, &of_ids.request, Expected());
    expect(pull_all(session).text == "The capital of Norway is Oslo.");
  };

  "events by pull and by callback are those of the engine"_test = [] {
    const OwnedModel model(2);
    const OwnedSession session(model);
    Question capital(kCapital);
    lapidary_begin(session, &capital.request, Expected());
    const Told pulled = pull_all(session);
    expect(pulled.text == "The capital of Norway is Oslo." && pulled.ending == LAPIDARY_ENDING_STOP) << pulled.text;
    expect(pulled.text == by_engine(model, capital).content);

    Told told;
    lapidary_answer(session, &capital.request, [](void* user, const lapidary_event* event) {
      take(*static_cast<Told*>(user), *event);
      return 0;
    }, &told, Expected());
    expect(told.text == pulled.text && told.ending == pulled.ending);

    // Anything but 0 cancels, with one event for the end.
    std::vector<std::int32_t> kinds;
    lapidary_answer(session, &capital.request, [](void* user, const lapidary_event* event) {
      static_cast<std::vector<std::int32_t>*>(user)->push_back(event->kind);
      return 1;
    }, &kinds, Expected());
    expect(kinds == std::vector<std::int32_t>{LAPIDARY_EVENT_TEXT, LAPIDARY_EVENT_END});
  };

  "tools, schemas, stops and thoughts reach the engine"_test = [] {
    const OwnedModel model(2);
    const OwnedSession session(model);
    Question weather(R"([{"role":"user","content":"What is the weather in Oslo?"}])");
    weather.request.tools = kTools;
    weather.request.flags = LAPIDARY_STRICT_TOOLS;
    weather.request.max_tokens = 60;
    lapidary_begin(session, &weather.request, Expected());
    const Told called = pull_all(session);
    const auto expected = by_engine(model, weather);
    expect(fatal(called.calls.size() == expected.calls.size() && !called.calls.empty())) << called.text;
    expect(called.calls[0] == expected.calls[0].name + text::to_json(expected.calls[0].arguments) && called.ending == LAPIDARY_ENDING_TOOL_CALL);

    Question number(kCapital);
    number.request.schema = R"({"type":"integer","minimum":1,"maximum":9})";
    lapidary_begin(session, &number.request, Expected());
    const std::string digit = pull_all(session).text;
    expect(digit.size() == 1u && digit[0] >= '1' && digit[0] <= '9') << digit;

    Question stopped(kCapital);
    const char* const stops[] = {" Norway"};
    stopped.request.stops = stops;
    stopped.request.stop_count = 1;
    lapidary_begin(session, &stopped.request, Expected());
    const Told cut = pull_all(session);
    expect(cut.text == "The capital of" && cut.ending == LAPIDARY_ENDING_STOP_TEXT);

    Question thinking(kCapital);
    thinking.request.flags = LAPIDARY_THINK;
    lapidary_begin(session, &thinking.request, Expected());
    const Told thought = pull_all(session);
    const auto with_thought = by_engine(model, thinking);
    expect(thought.thought == with_thought.reasoning && thought.text == with_thought.content);
  };

  "rounds give the tokens of the engine, whoever drafts, with their text behind them"_test = [] {
    for (const std::int32_t draft : {LAPIDARY_DRAFT_AUTOMATIC, LAPIDARY_DRAFT_LOOKUP, LAPIDARY_DRAFT_NONE}) {
      lapidary_model_options options = small_options(2);
      options.draft = draft;
      options.draft_tokens = draft == LAPIDARY_DRAFT_NONE ? 0 : 3;
      const OwnedModel model(options);
      const OwnedSession session(model);
      Question story(kStory);
      story.endless(7, 60);
      const auto expected = by_engine(model, story);
      lapidary_begin(session, &story.request, Expected());
      lapidary_prefill(session, Expected());
      const std::size_t prompt = tokens_of(session).size();
      expect(prompt == static_cast<std::size_t>(expected.prompt_tokens));
      Ids all, round(8);
      std::size_t count = 0, widest = 0;
      while (lapidary_next(session, round.data(), round.size(), &count, Expected()) == LAPIDARY_OK) {
        expect(fatal(count >= 1u && count <= 8u));
        widest = std::max(widest, count);
        all.insert(all.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
      }
      expect(all == expected.ids && all.size() == 60u);
      expect((widest > 1) == (draft == LAPIDARY_DRAFT_AUTOMATIC) || draft == LAPIDARY_DRAFT_LOOKUP) << widest;
      expect(lapidary_next(session, round.data(), round.size(), &count, Expected()) == LAPIDARY_END && count == 0u);
      const Told told = pull_all(session);
      expect(told.text == expected.content && told.ending == LAPIDARY_ENDING_MAX_TOKENS);

      std::string json(4096, '\0');
      std::size_t bytes = 0;
      lapidary_statistics(session, json.data(), json.size(), &bytes, Expected());
      const text::Value stats = text::parse_json(json.substr(0, bytes), "stats");
      expect(*stats.find("generated_tokens")->integer() == 60 && *stats.find("seed")->string() == "7");
    }
  };

  "each session drafts as it was told, in turn with others"_test = [] {
    const OwnedModel model(4);
    const OwnedSession plain(model), mtp(model), lookup(model);
    lapidary_set_draft(plain, LAPIDARY_DRAFT_NONE, 0, Expected());
    lapidary_set_draft(mtp, LAPIDARY_DRAFT_MTP, 3, Expected());
    lapidary_set_draft(lookup, LAPIDARY_DRAFT_LOOKUP, 7, Expected());
    Question story(kStory);
    story.endless(7, 60);
    lapidary_session* const sessions[] = {plain, mtp, lookup};
    Ids all[3], round(8);
    for (lapidary_session* session : sessions) lapidary_begin(session, &story.request, Expected());
    for (bool going = true; std::exchange(going, false);)
      for (std::size_t s = 0; s < std::size(sessions); ++s) {
        std::size_t count = 0;
        if (lapidary_next(sessions[s], round.data(), round.size(), &count, Expected()) != LAPIDARY_OK) continue;
        all[s].insert(all[s].end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
        going = true;
      }
    expect(all[0].size() == 60u && all[1] == all[0] && all[2] == all[0]);
    const Rounds none = rounds_of(plain), assisted = rounds_of(mtp), looked_up = rounds_of(lookup);
    expect(none.all == 59_l && none.mtp == 0_l && none.lookup == 0_l);
    expect(assisted.all < none.all && assisted.mtp > 0_l && assisted.lookup == 0_l) << assisted.all << assisted.mtp;
    expect(looked_up.mtp == 0_l && looked_up.lookup > 0_l) << looked_up.lookup;

    // A fork has it from its session, one that is opened anew from the model.
    lapidary_session* forked = nullptr;
    lapidary_fork(plain, 3, &forked, Expected());
    expect(generate(forked, story) == all[0] && rounds_of(forked).all == 59_l);
    lapidary_free_session(forked, Expected());
    const OwnedSession fresh(model);
    expect(generate(fresh, story) == all[0] && rounds_of(fresh).all < 59_l);
  };

  "a session drafts with what the model was loaded with"_test = [] {
    lapidary_model_options options = small_options(1);
    options.draft = LAPIDARY_DRAFT_LOOKUP;
    const OwnedModel model(options);
    const OwnedSession session(model);
    lapidary_error error = LAPIDARY_INIT(lapidary_error);
    expect(lapidary_set_draft(session, LAPIDARY_DRAFT_MTP, 0, &error) == LAPIDARY_ERROR_USAGE);
    expect(std::string(error.message) == "[draft] expected a kind that the model was loaded with, got another");
    expect(lapidary_set_draft(session, 4, 0, nullptr) == LAPIDARY_ERROR_USAGE && lapidary_set_draft(session, 0, 8, nullptr) == LAPIDARY_ERROR_USAGE);
    lapidary_set_draft(session, LAPIDARY_DRAFT_AUTOMATIC, 0, Expected());
  };

  "logits, hidden rows and log probabilities belong to the tokens of the last call"_test = [] {
    const OwnedModel model(3);
    const OwnedSession session(model), other(model);
    Question story(kStory);
    story.request.flags = LAPIDARY_ROWS | LAPIDARY_LOGPROBS;
    story.request.top_logprobs = 3;
    story.request.max_tokens = 12;
    lapidary_begin(session, &story.request, Expected());
    Ids round(8), all;
    std::size_t count = 0;
    std::vector<float> first_hidden;
    while (lapidary_next(session, round.data(), round.size(), &count, Expected()) == LAPIDARY_OK) {
      generate(other, Question(kCapital));  // rows stay, whoever uses the model then
      for (std::size_t i = 0; i < count; ++i) {
        const float *logits = nullptr, *hidden = nullptr;
        std::size_t vocab = 0, width = 0, listed = 0;
        lapidary_logits(session, i, &logits, &vocab, Expected());
        lapidary_hidden(session, i, &hidden, &width, Expected());
        expect(std::max_element(logits, logits + vocab) - logits == round[i]) << "greedy";
        if (all.empty() && i == 0) first_hidden.assign(hidden, hidden + width);
        lapidary_logprob logprobs[4];
        lapidary_logprobs(session, i, logprobs, 4, &listed, Expected());
        const auto expected = decode::logprobs({logits, vocab}, round[i], 3);
        expect(listed == 4u && logprobs[0].id == round[i] && logprobs[0].logprob == expected.chosen.logprob);
        expect(logprobs[1].id == round[i] && logprobs[3].id == expected.top[2].id);
      }
      const float* none = nullptr;
      std::size_t length = 0;
      expect(lapidary_logits(session, count, &none, &length, nullptr) == LAPIDARY_ERROR_USAGE);
      all.insert(all.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
    }
    expect(all == by_engine(model, story).ids);

    // The same rows from given tokens.
    const Ids prompt = engine::Prompt::of_messages(static_cast<lapidary_model*>(model)->model, text::parse_json(kStory, ""), {}, {}).ids;
    lapidary_rollback(other, 0, Expected());
    std::vector<float> logits(prompt.size() * 8192), hidden(prompt.size() * first_hidden.size());
    lapidary_rows(other, prompt.data(), prompt.size(), logits.data(), logits.size(), hidden.data(), hidden.size(), Expected());
    expect(std::equal(first_hidden.begin(), first_hidden.end(), hidden.end() - static_cast<std::ptrdiff_t>(first_hidden.size())));
    const auto last = logits.end() - 8192;
    expect(std::max_element(last, logits.end()) - last == all.front());
    expect(tokens_of(other) == prompt);
  };

  "a fork goes on as the session it was taken from"_test = [] {
    const OwnedModel model(3);
    const OwnedSession session(model);
    Question story(kStory);
    generate(session, story.endless(3, 20));
    Ids said = tokens_of(session);
    lapidary_session* forked = nullptr;
    lapidary_fork(session, said.size(), &forked, Expected());
    const OwnedSession fork(forked);
    expect(tokens_of(fork) == said);
    lapidary_fork(session, said.size() - 5, &forked, Expected());
    const OwnedSession shorter(forked);
    expect(tokens_of(shorter).size() == said.size() - 5);

    said.push_back(100);
    Question more(said);
    more.endless(4, 15);
    const Ids expected = generate(session, more);
    expect(expected.size() == 15u && generate(fork, more) == expected && generate(shorter, more) == expected);

    std::string json(4096, '\0');
    std::size_t bytes = 0;
    lapidary_statistics(fork, json.data(), json.size(), &bytes, Expected());
    expect(*text::parse_json(json.substr(0, bytes), "stats").find("reused_tokens")->integer() == static_cast<std::int64_t>(said.size()) - 1);
  };

  "a session is cut where it is asked to be"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    Question story(kStory);
    const Ids whole = generate(session, story.endless(5, 30));
    const std::size_t length = tokens_of(session).size();
    lapidary_rollback(session, length - 10, Expected());
    expect(tokens_of(session).size() == length - 10);
    expect(lapidary_rollback(session, length, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(generate(session, story) == whole);
  };
};

}  // namespace
}  // namespace lapidary::test::answer_test
