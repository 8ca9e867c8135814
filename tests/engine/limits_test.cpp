// What an answer may and must have in it: calls or none, one call, thoughts that are cut. Drafts change none of it.
#include <boost/ut.hpp>

#include <algorithm>

#include "engine/pebble.hpp"

namespace lapidary::test::limits_test {
namespace {

using namespace boost::ut;
using engine::Ending;
using Calls = engine::AnswerOptions::Calls;
using Ids = std::vector<std::int32_t>;

const char* const kStory = "Tell me a story.";
const char* const kWeather = "What is the weather in Paris?";
const char* const kSum = "What is 17 + 25?";

engine::Prompt asked_with_tools(const engine::Model& model, const char* question, bool think = false) {
  return engine::Prompt::of_messages(model, text::Value::Array{text::Value::Object{{"role", "user"}, {"content", question}}}, pebble_tools(),
                                     {.think = think});
}

engine::AnswerOptions sampled(std::uint64_t seed) {
  engine::AnswerOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  options.logprobs = 0;
  return options;
}

// Without drafts, and the same with them.
engine::Answer::Result played(engine::Model& model, const engine::Prompt& prompt, const engine::AnswerOptions& options) {
  const engine::Answer::Result plain = answered(model, prompt, options, 0);
  const engine::Answer::Result drafted = answered(model, prompt, options, 4);
  expect(drafted.ids == plain.ids && drafted.ending == plain.ending && drafted.content == plain.content);
  expect(std::ranges::equal(drafted.logprobs, plain.logprobs, {}, [](const auto& l) { return l.chosen.logprob; },
                            [](const auto& l) { return l.chosen.logprob; }));
  return plain;
}

std::int64_t count(const Ids& ids, std::int32_t id) { return std::ranges::count(ids, id); }

struct Pebble {
  engine::Model model{pebble_options()};
  std::int32_t open_thought = *model.tokenizer.special("<|channel>"), close_thought = *model.tokenizer.special("<channel|>");
  std::int32_t open_call = *model.tokenizer.special("<|tool_call>"), close_call = *model.tokenizer.special("<tool_call|>");
  Ids header = model.tokenizer.encode("<|channel>thought\n"), closing = model.tokenizer.encode("\n<channel|>");
};

const suite<"limits"> limits = [] {
  "where calls are not wanted none begins"_test = [] {
    Pebble pebble;
    engine::AnswerOptions options = sampled(1);
    options.sampling.temperature = 0.0f;
    expect(played(pebble.model, asked_with_tools(pebble.model, kWeather), options).calls.size() == 1u) << "it would like to";
    options.calls = Calls::none;
    options.sampling.bias = {{pebble.open_call, 100.0f}};
    for (const bool think : {false, true}) {
      options.max_tokens = 40;
      const auto answer = played(pebble.model, asked_with_tools(pebble.model, kWeather, think), options);
      expect(!answer.ids.empty() && count(answer.ids, pebble.open_call) == 0 && answer.calls.empty());
    }
  };

  "a required call comes, and nothing but a thought before it"_test = [] {
    Pebble pebble;
    int thoughts = 0, several = 0;
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      engine::AnswerOptions options = sampled(seed);
      options.calls = Calls::required;
      options.strict_tools = pebble_tools();
      options.thinking_budget_tokens = 12;
      options.max_tokens = 60;
      if (seed % 2) options.sampling.bias = {{1, -100.0f}, {6, -100.0f}, {14, -100.0f}};  // it does not end
      for (const bool think : {false, true}) {
        const auto answer = played(pebble.model, asked_with_tools(pebble.model, kStory, think), options);
        expect(answer.content.empty() && !answer.calls.empty()) << seed << answer.content;
        expect(answer.ending == (seed % 2 ? Ending::max_tokens : Ending::tool_call)) << name_of(answer.ending);
        expect(answer.ids.front() == pebble.open_call || (think && answer.ids.front() == pebble.open_thought));
        if (!think) expect(count(answer.ids, pebble.open_thought) == 0);
        for (const text::ToolCall& call : answer.calls) expect(call.name == "get_weather" || call.name == "add") << call.name;
        thoughts += answer.reasoning_tokens > 0;
        several += answer.calls.size() > 1;
      }
    }
    expect(thoughts > 0_i && several > 0_i);
  };

  "required calls need tools to fit"_test = [] {
    Pebble pebble;
    engine::AnswerOptions options;
    options.calls = Calls::required;
    const auto error = error_of([&] { answered(pebble.model, asked_with_tools(pebble.model, kStory), options, 0); });
    expect(error && error->message() == "[calls] expected the tools that required ones must fit, got none");
  };

  "a single call ends the answer, strict or free, chosen or required"_test = [] {
    Pebble pebble;
    for (const bool strict : {false, true}) {
      for (const Calls calls : {Calls::automatic, Calls::required}) {
        if (calls == Calls::required && !strict) continue;
        engine::AnswerOptions options = sampled(1);
        options.sampling.temperature = 0.0f;
        options.sampling.bias = {{1, -100.0f}, {6, -100.0f}, {14, -100.0f}};  // it would go on
        if (strict) options.strict_tools = pebble_tools();
        options.calls = calls;
        options.max_tokens = 30;
        const auto longer = played(pebble.model, asked_with_tools(pebble.model, kWeather), options);
        expect(longer.calls.size() >= 1u && longer.ending == Ending::max_tokens);
        options.single_call = true;
        const auto answer = played(pebble.model, asked_with_tools(pebble.model, kWeather), options);
        expect(answer.calls.size() == 1u && answer.ending == Ending::tool_call && answer.ids.back() == pebble.close_call);
        options.max_tokens = static_cast<std::int32_t>(answer.ids.size());
        expect(played(pebble.model, asked_with_tools(pebble.model, kWeather), options).ending == Ending::tool_call) << "no limit cut it";
      }
    }
  };

  "with a schema and tools the answer is a call or fits the schema"_test = [] {
    Pebble pebble;
    engine::AnswerOptions options = sampled(1);
    options.schema = text::parse_json(R"({"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"required":["n"]})", "schema");
    options.strict_tools = pebble_tools();
    options.sampling.bias = {{pebble.open_call, 100.0f}};
    options.max_tokens = 60;
    const auto called = played(pebble.model, asked_with_tools(pebble.model, kStory), options);
    expect(!called.calls.empty() && called.content.empty());
    options.sampling.bias = {{pebble.open_call, -100.0f}};
    const auto said = played(pebble.model, asked_with_tools(pebble.model, kStory), options);
    expect(said.calls.empty() && said.content.starts_with("{") && said.ending == Ending::stop) << said.content;
  };

  "a thought is closed after its budget, and the answer goes on as if the model had closed it"_test = [] {
    Pebble pebble;
    for (const int budget : {0, 5}) {
      for (const int kind : {0, 1, 2}) {  // free, with a schema, with strict tools
        engine::AnswerOptions options = sampled(5);
        options.thinking_budget_tokens = budget;
        options.max_tokens = 60;
        options.sampling.bias = {{pebble.close_thought, -100.0f}};  // by itself it never ends
        if (kind == 1) options.json = true;
        if (kind == 2) options.strict_tools = pebble_tools();
        else options.sampling.bias.emplace_back(pebble.open_call, -100.0f);
        if (kind != 0) options.sampling.bias.emplace_back(pebble.open_thought, 20.0f);
        options.sampling.temperature = kind == 0 ? 0.0f : 1.0f;
        const auto prompt = asked_with_tools(pebble.model, kSum, true);
        const auto answer = played(pebble.model, prompt, options);
        Ids begin = pebble.header;
        expect(fatal(answer.ids.size() > begin.size() + static_cast<std::size_t>(budget) + 2));
        const auto thought = std::span(answer.ids).subspan(begin.size(), static_cast<std::size_t>(budget));
        begin.insert(begin.end(), thought.begin(), thought.end());
        begin.insert(begin.end(), pebble.closing.begin(), pebble.closing.end());
        if (kind == 0) {
          expect(std::ranges::equal(begin, std::span(answer.ids).first(begin.size()))) << budget;
          expect(answer.reasoning_tokens == static_cast<int>(begin.size())) << answer.reasoning_tokens;
        } else {
          expect(answer.ids.front() == pebble.open_thought && count(answer.ids, pebble.close_thought) >= 1);
        }
      }
    }
  };

  "so is one that the prompt has opened"_test = [] {
    Pebble pebble;
    const text::Value messages = text::parse_json(R"([{"role":"user","content":"What is the weather in Paris?"},
      {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"get_weather","arguments":{"location":"Paris"}}}]},
      {"role":"tool","tool_call_id":"1","content":"sunny"}])", "messages");
    const auto prompt = engine::Prompt::of_messages(pebble.model, messages, pebble_tools(), {.think = true});
    expect(fatal(prompt.reading == engine::Reading::answer_in_thought));
    for (const int budget : {0, 3}) {
      for (const bool json : {false, true}) {
        engine::AnswerOptions options = sampled(2);
        options.json = json;
        options.thinking_budget_tokens = budget;
        options.max_tokens = 40;
        options.sampling.bias = {{pebble.close_thought, -100.0f}, {pebble.open_thought, -100.0f}, {1, -100.0f}, {6, -100.0f}, {14, -100.0f}};
        const auto answer = played(pebble.model, prompt, options);
        const auto closing = std::span(answer.ids).subspan(static_cast<std::size_t>(budget), 2);
        expect(std::ranges::equal(closing, pebble.closing)) << budget;
        expect(answer.reasoning_tokens == budget + 2);
      }
    }
    engine::AnswerOptions negative;
    negative.thinking_budget_tokens = -1;
    const auto error = error_of([&] { answered(pebble.model, prompt, negative, 0); });
    expect(error && error->where == "thinking budget");
  };
};

}  // namespace
}  // namespace lapidary::test::limits_test
