// What the conversations of a model share, and what each has for itself.
#include <boost/ut.hpp>

#include <fstream>

#include <sys/resource.h>

#include "engine/pebble.hpp"
#include "engine/saved.hpp"
#include "support/program.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::model_test {
namespace {

using namespace boost::ut;

const suite<"models"> models = [] {
  "the vocabulary of grammars is built once, when first needed"_test = [] {
    engine::Model model(pebble_options(2));
    engine::Conversation first(model), second(model);
    engine::AnswerOptions json, schema, tools;
    json.json = true;
    schema.schema = text::parse_json(R"({"type":"integer"})", "schema");
    tools.strict_tools = text::parse_json(R"([{"function":{"name":"now"}}])", "tools");
    engine::Answer one(first, asked(model, "Give me JSON."), json);
    const auto vocabulary = model.vocabulary();
    const auto users = [&] { return vocabulary.use_count() - 2; };  // the model and this test are no answers
    const auto with_one = users();
    expect(with_one > 0_i);
    engine::Answer two(second, asked(model, "Give me JSON."), schema);
    expect(users() == 2 * with_one) << users();

    engine::Answer three(first, asked(model, "What time is it?"), tools);
    expect(users() == 2 * with_one) << "calls have one of their own";
    const auto calls = model.call_vocabulary();
    const auto before = calls.use_count();
    engine::Answer four(first, asked(model, "What time is it?"), tools);
    expect(calls.use_count() > before && model.call_vocabulary() == calls && model.vocabulary() == vocabulary);
  };

  "a saved session goes on with the same kind of K/V, and is refused with another"_test = [] {
    const TemporaryFolder folder;
    const std::string path = folder.path("session");
    const auto with = [](const link::KvFormat* kv) {
      engine::ModelOptions options = pebble_options(2);
      options.link.kv = kv;
      return options;
    };
    const auto more = [](engine::Conversation& conversation) {
      const std::int32_t token = 325;
      conversation.session.forward({&token, 1});
      return std::vector<float>(conversation.session.logits(0).begin(), conversation.session.logits(0).end());
    };
    engine::Model model(with(&link::kKvQ8));
    engine::Conversation first(model), second(model);
    engine::Answer answer(first, asked(model, "What is the capital of Norway?"), {});
    finish(answer);
    engine::save(first, path);
    engine::restore(second, path);
    const std::vector<float> expected = more(first), got = more(second);
    const bool same = got == expected;
    expect(same);
    engine::Model other(with(&link::kKvQ4));
    engine::Conversation third(other);
    const auto error = error_of([&] { engine::restore(third, path); });
    expect(fatal(error.has_value()));
    expect(error->message() == "[" + path + "] kv, expected \"q4\", got \"q8\"");
  };

  "there are as many conversations as sessions were planned"_test = [] {
    engine::Model model(pebble_options(2));
    std::optional<engine::Conversation> first(model), second(model);
    const auto error = error_of([&] { engine::Conversation third(model); });
    expect(error && error->message() == "[sessions] expected at most 2 at a time, got another");
    first.reset();
    engine::Conversation third(model);
    expect(third.slot.number() == 0_i && second->slot.number() == 1_i);
  };

  "one that is warm, locked and pinned answers as any does"_test = [] {
    const auto page_faults = [] {
      rusage used{};
      getrusage(RUSAGE_SELF, &used);
      return used.ru_minflt;
    };
    const auto answer_of = [](engine::Model& model) {
      engine::Conversation conversation(model);
      engine::Answer answer(conversation, asked(model, "What is the capital of Norway?"), {});
      return finish(answer).content;
    };
    engine::Model usual(pebble_options());
    engine::ModelOptions options = pebble_options();
    options.link.threads = 2;
    options.link.backend_options = {.huge_pages = false, .pin_threads = true, .warm_up = true};
    engine::Model warm(options);
    const auto begin = page_faults();
    const std::string warm_answer = answer_of(warm);
    const auto middle = page_faults();
    expect(warm_answer == answer_of(usual));
    const auto warm_faults = middle - begin, usual_faults = page_faults() - middle;
    expect(2 * warm_faults < usual_faults) << warm_faults << usual_faults;
    options.link.backend_options.lock_memory = true;
    std::optional<engine::Model> locked;
    const auto error = error_of([&] { locked.emplace(options); });  // an ordinary user may lock little
    if (error) expect(error->message().starts_with("[lock memory] expected ")) << error->message();
    else expect(answer_of(*locked) == answer_of(usual));
#if defined(__linux__)
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line) && !line.starts_with("VmLck:")) {}
    const link::MemoryPlan& plan = usual.program.plan;
    if (!error && !kSlowBuild)  // sanitizers lock nothing
      expect(std::stoull(line.substr(6)) * 1024 >= plan.weights_mapped_bytes + plan.kv_bytes) << line;
#endif
  };

  "an assistant that is not asked for and broken is left out, and told"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kRoot + "/models/pebble", folder.path("pebble"));
    std::filesystem::create_directories(folder.path("pebble-assistant"));
    std::filesystem::copy_file(kRoot + "/models/pebble-assistant/config.json", folder.path("pebble-assistant/config.json"));
    engine::ModelOptions options = pebble_options();
    options.folder = folder.path("pebble");
    std::vector<std::string> notices;
    options.notice = [&](const std::string& text) { notices.push_back(text); };
    expect(!engine::open_program(options).assistant);
    expect(notices.size() == 1u && notices[0].ends_with("; going on without this drafter"));
    options.draft.kind = engine::DraftKind::mtp;
    expect(error_of([&] { engine::open_program(options); }).has_value());
  };

  "a text to go on with begins with <bos>, once"_test = [] {
    const engine::Model model(pebble_options());
    const std::int32_t bos = engine::required_special(model.tokenizer, "<bos>");
    for (const char* text : {"", "Once", "<bos>Once"}) {
      const engine::Prompt prompt = engine::Prompt::of_text(model, text);
      expect(prompt.ids.front() == bos && std::ranges::count(prompt.ids, bos) == 1) << text;
      expect(prompt.reading == engine::Reading::plain);
    }
  };
};

}  // namespace
}  // namespace lapidary::test::model_test
