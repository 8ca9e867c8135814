// S1: a request has the same answer, to the byte, whatever else happens: alone or among others, streamed or not, drafted or not, with a
// cached beginning or not, and the one that engine::Answer gives. With LAPIDARY_FULL in the environment, many more requests.
#include <boost/ut.hpp>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "serve/body.hpp"
#include "serve/prepare.hpp"
#include "serve/requests.hpp"
#include "serve/running_server.hpp"

namespace lapidary::test::same_bytes_test {
namespace {

using namespace boost::ut;
using text::Value;

struct Asked {
  bool chats;        // else it is a completion
  std::string body;  // without "stream"
};

const std::string kSchema = R"({"type":"json_schema","json_schema":{"name":"place","schema":{"type":"object","properties":{"name":{"type":"string","maxLength":10},"size":{"type":"integer","minimum":0,"maximum":99}},"required":["name","size"],"additionalProperties":false}}})";

std::vector<Asked> all_requests() {
  const std::string tools = R"("tools":)" + text::to_json(pebble_tools());
  const auto chat = [](const std::string& text, const std::string& more) { return Asked{true, question(text, more)}; };
  const auto completion = [](const std::string& more) { return Asked{false, "{" + more + "}"}; };
  return {
      chat("What is the capital of Norway?", R"("temperature":0,"logprobs":true,"top_logprobs":2)"),
      chat("Tell me a story.", R"("seed":1,"temperature":1,"max_tokens":40)"),
      chat("Tell me a story.", R"("seed":2,"temperature":1.5,"top_k":20,"max_tokens":30,"logprobs":true)"),
      chat("Tell me a story.", R"("seed":3,"top_p":0.7,"frequency_penalty":1.5,"presence_penalty":0.5,"max_tokens":30,"logprobs":true,"top_logprobs":5)"),
      chat("Spell the word garden.", R"("seed":4,"min_p":0.05,"repetition_penalty":1.3,"max_tokens":30)"),
      chat("Name a place.", R"("seed":5,"temperature":1,"max_tokens":60,"logprobs":true,"response_format":)" + kSchema),
      chat("Anything.", R"("seed":6,"temperature":1,"max_tokens":40,"response_format":{"type":"json_object"})"),
      chat("What is the weather in Oslo?", R"("seed":7,"max_tokens":60,)" + tools),
      chat("What is 2 and 3?", R"("seed":8,"temperature":1,"max_tokens":60,"tool_choice":"required",)" + tools),
      chat("What is 4 and 5?", R"("seed":9,"temperature":1,"max_tokens":60,"parallel_tool_calls":false,"tool_choice":{"type":"function","function":{"name":"add"}},)" + tools),
      chat("What is the capital of France?", R"("seed":10,"reasoning_effort":"high","thinking_budget_tokens":6,"max_tokens":40,"logprobs":true)"),
      chat("Tell me a story.", R"("seed":11,"temperature":1,"max_tokens":40,"stop":["e ","."])"),
      chat("Tell me a story.", R"("seed":12,"temperature":1,"max_tokens":25,"n":3,"logit_bias":{"1":-100,"6":-100},"logprobs":true)"),
      completion(R"("prompt":"The capital of Norway is","seed":13,"temperature":1,"max_tokens":20,"logprobs":3)"),
      completion(R"("prompt":["Once","Once upon a time"],"seed":14,"temperature":0.8,"max_tokens":16,"n":2,"logprobs":0)"),
      completion(R"("prompt":[2,10,11,12],"seed":15,"temperature":0,"max_tokens":20,"stop":"a","logprobs":1)"),
  };
}

std::string with_stream(const std::string& body) { return with_field(body, R"("stream":true)"); }

// All that must be the same, by choice: texts, calls, log probabilities, why it ended.
struct Essence {
  std::map<std::int64_t, std::map<std::string, std::string>> choices;

  void add(const Value& choice) {
    auto& parts = choices[*choice.find("index")->integer()];
    for (const char* name : {"message", "delta"})
      if (const Value* said = choice.find(name)) add(parts, *said);
    add_text(parts, choice, "text");
    add_text(parts, choice, "finish_reason");
    if (const Value* logprobs = choice.find("logprobs"); logprobs && logprobs->object())
      for (const auto& [name, list] : *logprobs->object())
        if (list.array())
          for (const Value& entry : *list.array()) parts["logprobs " + name] += text::to_json(entry) + "\n";
  }
  bool operator==(const Essence&) const = default;

 private:
  using Parts = std::map<std::string, std::string>;
  static void add_text(Parts& parts, const Value& from, const std::string& name) {
    if (const Value* text = from.find(name); text && text->string() && !text->string()->empty()) parts[name] += *text->string();
  }
  static void add(Parts& parts, const Value& said) {
    add_text(parts, said, "content");
    add_text(parts, said, "reasoning_content");
    const Value* calls = said.find("tool_calls");
    if (!calls || !calls->array()) return;
    for (std::size_t i = 0; i < calls->array()->size(); ++i) {
      const Value& call = (*calls->array())[i];
      const Value* index = call.find("index");
      const std::string place = "call " + std::to_string(index ? *index->integer() : static_cast<std::int64_t>(i)) + " ";
      for (const char* name : {"name", "arguments"})
        if (const Value* text = call.find("function")->find(name)) parts[place + name] += *text->string();
    }
  }
};

Essence essence_of(const std::string& body) {
  Essence essence;
  if (body.starts_with('{')) {
    const Value reply = text::parse_json(body, "reply");
    if (const Value* choices = reply.find("choices"))
      for (const Value& choice : *choices->array()) essence.add(choice);
  } else {
    for (const Value& event : data_of(body))
      if (const Value* choices = event.find("choices"))
        for (const Value& choice : *choices->array()) essence.add(choice);
  }
  return essence;
}

// The engine's own answer, in the API's words.
Essence direct(engine::Model& model, const Asked& asked) {
  serve::Facts facts = some_facts();
  facts.vocab = model.program.graph->shape.vocab;
  serve::Request request = (asked.chats ? serve::read_chat : serve::read_completion)(serve::parse_body(asked.body), facts);
  serve::GrammarCache grammars;
  serve::Ticket ticket;
  serve::prepare(model, std::move(request.job), grammars, ticket);
  request.writer->begin({});
  for (int index = 0; index < ticket.answers(); ++index) {
    engine::AnswerOptions options = ticket.job.options;
    options.sampling.stream = static_cast<std::uint32_t>(index % ticket.job.choices);
    options.whole_calls_only = true;
    engine::Conversation conversation(model);
    engine::Answer answer(conversation, ticket.prompts[static_cast<std::size_t>(index / ticket.job.choices)], options);
    serve::Delta delta{.index = index};
    while (const auto event = answer.turn())
      for (const int token : event->content_tokens) {
        if (options.logprobs < 0) continue;
        const auto told = [&](const decode::TokenLogprob& of) { return serve::TokenLogprob{of.id, std::string(model.tokenizer.bytes(of.id)), of.logprob}; };
        const decode::Logprobs& logprobs = answer.result().logprobs[static_cast<std::size_t>(token)];
        delta.logprobs.push_back({told(logprobs.chosen), {}});
        for (const decode::TokenLogprob& top : logprobs.top) delta.logprobs.back().top.push_back(told(top));
      }
    const engine::Answer::Result& result = answer.result();
    delta.reasoning = result.reasoning;
    delta.content = result.content;
    delta.calls = result.calls;
    request.writer->add(delta);
    using engine::Ending;
    const bool is_cut = result.ending == Ending::max_tokens || result.ending == Ending::context;
    request.writer->end({.index = index,
                         .finish = is_cut                                ? serve::Finish::length
                                   : result.ending == Ending::tool_call ? serve::Finish::tool_calls
                                   : result.ending == Ending::stop_text ? serve::Finish::stop_text
                                                                        : serve::Finish::stop,
                         .stop_text = result.stop_text});
  }
  return essence_of(request.writer->finish({}));
}

engine::ModelOptions model_of(int sessions, engine::DraftKind drafts) {
  engine::ModelOptions options = pebble_with(sessions, 1024);
  options.draft.kind = drafts;
  return options;
}

const std::vector<Essence>& engine_answers() {
  static const std::vector<Essence> all = [] {
    engine::Model model(model_of(1, engine::DraftKind::none));
    std::vector<Essence> answers;
    for (const Asked& asked : all_requests()) answers.push_back(direct(model, asked));
    return answers;
  }();
  return all;
}

struct Setting {
  int sessions;
  bool drafts, caches;
};

// Every model takes a while to make its grammars' vocabularies: not all of them are for every day.
std::vector<Setting> settings() {
  if (!std::getenv("LAPIDARY_FULL")) return {{1, false, false}, {3, true, true}, {8, true, false}};
  std::vector<Setting> all;
  for (const int sessions : {1, 3, 8})
    for (const bool drafts : {true, false})
      for (const bool caches : {true, false}) all.push_back({sessions, drafts, caches});
  return all;
}

const suite<"same bytes"> same_bytes = [] {
  const std::vector<Asked> requests = all_requests();

  "the engine's answers have all that is compared"_test = [&] {
    std::vector<Essence> expected = engine_answers();
    expect(requests.size() == 16_ul);
    const auto has = [&](std::size_t request, const std::string& part) { return expected[request].choices[0].contains(part); };
    expect(has(0, "logprobs content") && has(1, "content") && has(8, "call 0 name") && has(9, "call 0 arguments") && has(10, "reasoning_content"));
    expect(has(13, "logprobs token_logprobs") && expected[12].choices.size() == 3_ul && expected[14].choices.size() == 4_ul);
  };

  // Rounds of all requests at once, each in another order.
  const int rounds = std::getenv("LAPIDARY_FULL") ? 32 : 1;
  std::mt19937 random(21);
  for (const auto& [sessions, drafts, caches] : settings())
    boost::ut::test("same bytes: " + std::to_string(sessions) + " sessions, " + (drafts ? "drafts, " : "no drafts, ") + (caches ? "cache" : "no cache")) = [&, sessions, drafts, caches] {
      const std::vector<Essence>& expected = engine_answers();
      serve::ServerOptions options;
      if (!caches) options.prefix_cache_bytes = 0;
      options.queue = 1000;
      options.queue_timeout_s = options.request_timeout_s = 1e5;  // however slow the build
      const RunningServer server(model_of(sessions, drafts ? engine::DraftKind::automatic : engine::DraftKind::none), options);
      for (int round = 0; round < rounds; ++round) {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < requests.size(); ++i) order.push_back(i);
        std::ranges::shuffle(order, random);
        std::vector<std::pair<std::size_t, serve::RawClient>> clients;
        for (const std::size_t i : order) {
          const Asked& asked = requests[i];
          const std::string body = random() % 2 ? with_stream(asked.body) : asked.body;
          clients.emplace_back(i, server.sent(serve::post(asked.chats ? "/v1/chat/completions" : "/v1/completions", body)));
        }
        for (auto& [i, client] : clients) {
          const serve::Reply reply = client.reply();
          expect(reply.status == 200_i && essence_of(reply.body) == expected[i]) << "request" << i << reply.body;
        }
      }
      if (sessions > 1) return;
      for (std::size_t i = 0; i < requests.size(); ++i) {  // alone, after what others have left
        const std::string body = i % 2 ? with_stream(requests[i].body) : requests[i].body;
        expect(essence_of(server.post(requests[i].chats ? "/v1/chat/completions" : "/v1/completions", body).body) == expected[i]) << "alone" << i;
      }
    };
};

}  // namespace
}  // namespace lapidary::test::same_bytes_test
