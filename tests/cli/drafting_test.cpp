// Drafting as a user meets it: flags, errors, statistics, and the same answer whatever drafts.
#include <boost/ut.hpp>

#include <sstream>

#include "decode/scripted_drafts.hpp"
#include "support/program.hpp"
#include "support/slow_build.hpp"
#include "text/value.hpp"

namespace lapidary::test::drafting_test {
namespace {

using namespace boost::ut;
using text::Value;

const std::string kPebble = kRoot + "/models/pebble";
const std::string kAssistant = kRoot + "/models/pebble-assistant";

// 3: a limit came before the end of what a schema or a call asks for.
Value json_of(const Outcome& run) {
  expect(fatal(run.status == 0 || run.status == 3)) << run.err;
  return text::parse_json(run.out, "output");
}

const Value& at(const Value& value, std::initializer_list<const char*> path) {
  const Value* found = &value;
  for (const char* key : path) {
    found = found->find(key);
    expect(fatal(found != nullptr)) << key;
  }
  return *found;
}

double number(const Value& value) { return std::stod(text::to_json(value)); }

const suite<"drafting"> drafting = [] {
  "an answer is the same whoever drafts and however much"_test = [] {
    const TemporaryFolder folder;
    folder.write("schema", R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},
                               "required":["name","age"]})");
    folder.write("tools", R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
                              "properties":{"location":{"type":"string"}},"required":["location"]}}}])");
    std::vector<const char*> drafts = {"", "--draft-kind mtp --draft-tokens 4", "--draft-kind lookup --draft-tokens 7 --threads 1",
                                       "--draft-kind auto --draft-tokens 2", "--draft-tokens 0"};
    if (kSlowBuild) drafts.resize(2);
    const std::string limited = kSlowBuild ? " --max-tokens 16" : " --max-tokens 80";
    for (const std::string& request :
         {"'Tell me a story.' --seed 5" + limited, "'Count from 1 to 30.' --temperature 0" + limited,
          "'Give me JSON for a person.' --seed 6 --json-schema " + folder.path("schema") + limited,
          "'What is the weather in Oslo?' --seed 7 --strict-tools --tools " + folder.path("tools") + limited,
          "'Tell me a story.' --seed 8 --repetition-penalty 1.3 --frequency-penalty 0.4 --temperature 0.9" + limited,
          "'Tell me a story.' --seed 9 --stop ' the' --stop ','" + limited}) {
      const Value plain = json_of(lapidary("generate --json --logprobs 2 --draft-kind none " + request));
      expect(number(at(plain, {"stats", "tokens_per_round"})) <= 1.0);
      for (const char* draft : drafts) {
        const Value drafted = json_of(lapidary("generate --json --logprobs 2 " + request + " " + draft));
        for (const char* key : {"text", "ids", "stop_reason", "logprobs"})
          expect(at(plain, {key}) == at(drafted, {key})) << request << draft << key;
      }
    }
  };

  "the assistant beside the model drafts, and the statistics say so"_test = [] {
    const Value result = json_of(
        lapidary("generate --json --temperature 0 --max-tokens 60 --draft-kind mtp --draft-tokens 3 'Give me JSON for 3 people.'"));
    expect(at(result, {"stats", "draft", "assistant"}).string()->ends_with("pebble-assistant"));
    const std::string hash = *at(result, {"stats", "draft", "assistant_sha256", "model.safetensors"}).string();
    const Outcome expected = shell("sha256sum " + kAssistant + "/model.safetensors");
    expect(lapidary("generate --max-tokens 2 --stats hi").err.find("sha256 " + hash + " model.safetensors\n") != std::string::npos);
    expect(hash.size() == 64u && expected.out.starts_with(hash)) << hash;
    expect(number(at(result, {"stats", "tokens_per_round"})) > 2.0);
    const auto& by_k = *at(result, {"stats", "draft", "rounds_by_draft_tokens"}).array();
    expect(by_k.size() == 8u && number(by_k[3]) > 10);
    for (const char* key : {"rounds", "acceptance_by_position", "drafted_by_position", "accepted_by_position", "plain_rounds",
                            "draft_s", "verify_s", "other_s"})
      expect(at(result, {"stats", "draft"}).find(key) != nullptr) << key;

    const Outcome people = lapidary("generate --stats --temperature 0 --max-tokens 40 --draft-kind none 'Tell me a story.'");
    for (const char* piece : {"tokens per round", "drafts per round: 0 x39", "without drafts x39: no source"})
      expect(people.err.find(piece) != std::string::npos) << piece << people.err;
  };

  "a kind that cannot work is an error before any weight is read"_test = [] {
    const TemporaryFolder folder;
    const auto config_of = [&](const std::string& from, const std::string& name) {
      std::filesystem::create_directories(folder.path(name));
      std::filesystem::copy_file(from + "/config.json", folder.path(name + "/config.json"));
      return folder.path(name);
    };
    const std::string target = config_of(kPebble, "target");  // without weights: whatever reads them complains of that
    const std::string stranger = config_of(kFixtures + "/assistants/dense-bf16", "other/stranger");
    struct Wrong {
      std::string arguments;
      int status;
      std::string mentions;
    };
    for (const Wrong& wrong :
         {Wrong{"--draft-kind mtp", 2, "expected a drafter of this kind beside"}, {"--draft-model " + stranger, 1, "vocab_size"},
          {"--draft-kind mtp --draft-model " + stranger, 1, "vocab_size"}, {"--draft-model " + kPebble, 1, "expected a drafter"},
          {"--draft-model " + folder.path("nothing"), 1, "nothing/config.json"},
          {"--draft-kind lookup --draft-model " + kAssistant, 2, "--draft-model"},
          {"--draft-kind none --draft-model " + kAssistant, 2, "--draft-model"}}) {
      const Outcome run = lapidary("generate hello --model " + target + " " + wrong.arguments);
      expect(run.status == wrong.status && run.out.empty()) << wrong.arguments << run.err;
      expect(run.err.starts_with("[") && run.err.find(wrong.mentions) != std::string::npos) << wrong.arguments << run.err;
    }
    for (const char* arguments : {"--draft-kind eagle", "--draft-tokens 8", "--draft-tokens -1", "--draft-tokens many"})
      expect(lapidary("generate hello " + std::string(arguments)).status == 2_i) << arguments;
    // Without being asked for, a missing assistant is no error; missing weights are.
    expect(lapidary("generate hello --model " + target).err.find("model.safetensors") != std::string::npos);
  };

  "an assistant that merely lies beside the model and is broken is left out with a word"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kPebble, folder.path("pebble"));
    std::filesystem::create_directories(folder.path("pebble-assistant"));
    std::filesystem::copy_file(kAssistant + "/config.json", folder.path("pebble-assistant/config.json"));
    const std::string request = "generate --json --temperature 0 --max-tokens 8 hello --model " + folder.path("pebble");
    const Outcome run = lapidary(request);
    expect(run.status == 0_i && run.err.starts_with("[") && run.err.find("without this drafter") != std::string::npos) << run.err;
    expect(at(json_of(run), {"stats", "draft"}).find("assistant") == nullptr);
    for (const std::string& asked : {std::string(" --draft-kind mtp"), " --draft-model " + folder.path("pebble-assistant")})
      expect(lapidary(request + asked).status == 1_i) << asked;
  };

  "a mistake that has nothing to do with the assistant is told once"_test = [] {
    const Outcome run = lapidary("generate hi --context 9999999");
    expect(run.status == 2_i && run.err.starts_with("[context] ") && run.err.find('\n') == run.err.size() - 1) << run.err;
    const Outcome assistant = lapidary("generate hi --model " + kAssistant);
    expect(assistant.status == 1_i && assistant.err.find("expected a model, got a drafter, which goes to --draft-model") != std::string::npos)
        << assistant.err;
  };

  "check-exact finds this machine exact"_test = [] {
    const std::string positions = kSlowBuild ? "9" : "40";
    // The exact mode takes seven times as long; sanitized, its kernels run at every width in the tests of decode.
    const std::string numeric = kSlowBuild ? "fast" : "exact";
    const Outcome run = lapidary("check-exact --positions " + positions + " --draft-kind mtp --numeric " + numeric);
    expect(run.status == 0_i) << run.err;
    expect(run.out.find("rows: " + positions + " positions") != std::string::npos && run.out.find("texts: ") != std::string::npos) << run.out;
  };

  "bench decodes one text in all ways with scripted drafts"_test = [] {
    const std::string bench = "bench " + kFixtures + "/models/moe-4bit --text-tokens 120 --acceptance ";
    const Outcome run = lapidary(bench + "0,0.5,1 --json");
    expect(fatal(run.status == 0)) << run.err;
    std::istringstream lines(run.out);
    for (const double acceptance : {0.0, 0.5, 1.0}) {
      std::string line;
      std::getline(lines, line);
      const Value row = text::parse_json(line, "line");
      expect(number(at(row, {"acceptance"})) == acceptance && number(at(row, {"tokens"})) == 120.0) << line;
      expect(at(row, {"fixed_tok_s"}).array()->size() == 8u) << line;
      const auto first = [&](const char* what) { return number(at(row, {"draft", what}).array()->front()); };
      expect(first("drafted_by_position") > 0) << line;
      if (acceptance == 0) expect(first("accepted_by_position") == 0.0) << line;
      if (acceptance == 1) expect(first("accepted_by_position") == first("drafted_by_position")) << line;
    }
    const Outcome people = lapidary(bench + "0.5");
    expect(people.status == 0_i && people.out.find("best fixed k") != std::string::npos) << people.out;
    expect(std::ranges::count(people.out, '\n') == 4) << people.out;
    for (const char* wrong : {"1.5", "-1", "most", "0.5 --ops", "0.5 -p 16"})
      expect(lapidary(bench + wrong).status == 2_i) << wrong;
  };

  "bench lets drafters work for scripted drafts"_test = [] {
    for (const auto& [kind, drafters] : {std::pair{"mtp", "assistants"}, {"dflash", "dflash"}}) {
      const std::string bench = "bench " + kFixtures + "/models/dense-bf16 --text-tokens 60 --draft-kind " + kind;
      const std::string drafter = " --draft-model " + kFixtures + "/" + drafters + "/dense-bf16 --acceptance ";
      const Value row = json_of(lapidary(bench + drafter + "1 --json"));
      const auto at_7 = [&](const char* what) { return number(at(row, {what}).array()->at(7)); };
      expect(at_7("fixed_draft_ms") > 0 && at_7("fixed_verify_ms") > 0) << kind;
      expect(number(at(row, {"fixed_draft_ms"}).array()->front()) == 0.0) << kind;
      expect(at(row, {"draft", "rounds_by_source"}).object()->front().first == kind);
      const auto first = [&](const char* what) { return number(at(row, {"draft", what}).array()->front()); };
      expect(first("drafted_by_position") > 0 && first("accepted_by_position") == first("drafted_by_position")) << kind;
      const Outcome people = lapidary(bench + drafter + "0.5");
      expect(std::ranges::count(people.out, '\n') == 12) << people.out;
    }
    const std::string bench = "bench " + kPebble + " --text-tokens 8 --draft-kind ";
    expect(lapidary(bench + "auto --acceptance 1").err == "[--draft-kind] expected mtp, dflash or lookup, got another\n");
    expect(lapidary(bench + "mtp").status == 2_i) << "not without --acceptance";
  };

  "inspect shows the assistant's cost"_test = [] {
    expect(lapidary("inspect " + kPebble).out.find("pebble-assistant, per draft") != std::string::npos);
    expect(lapidary("inspect --draft-kind none " + kPebble).out.find("per draft") == std::string::npos);
    const Value result = json_of(lapidary("inspect --json " + kPebble));
    expect(number(at(result, {"assistant", "steps_per_draft"})) == 42.0);
  };
};

const suite<"scripted drafts"> scripted_drafts = [] {
  "they are right as often as asked for, the same ones at the same place, and end with the text"_test = [] {
    constexpr int kTokens = 4000, kPromptTokens = 3;
    const std::vector<std::int32_t> text(kTokens, 1), history(kPromptTokens + kTokens, 1);
    for (const double acceptance : {0.0, 0.25, 0.9, 1.0}) {
      decode::ScriptedDrafts drafts(text, kPromptTokens, 3, acceptance, 7), same(text, kPromptTokens, 3, acceptance, 7);
      int right = 0;
      for (int emitted = 0; emitted < kTokens; ++emitted) {
        const auto one = drafts.propose(std::span(history).first(kPromptTokens + emitted), 1);
        expect(fatal(one.count == 1 && one.tokens[0] >= 0 && one.tokens[0] < 3));
        right += one.tokens[0] == 1;
        const int begin = emitted / 7 * 7;
        const auto many = same.propose(std::span(history).first(kPromptTokens + begin), 7);
        expect(many.count == std::min(7, kTokens - begin) && many.tokens[emitted - begin] == one.tokens[0]) << emitted;
      }
      expect(std::abs(right - acceptance * kTokens) <= 0.03 * kTokens) << acceptance << right;
      if (acceptance == 0 || acceptance == 1) expect(right == acceptance * kTokens) << right;
      expect(drafts.propose(history, 7).count == 0_i);
    }
  };
};

}  // namespace
}  // namespace lapidary::test::drafting_test
