// lapidary rounds against the recorded rounds of every drafter.
#include <boost/ut.hpp>

#include "support/expected.hpp"
#include "support/pairs.hpp"
#include "support/program.hpp"
#include "text/value.hpp"

namespace lapidary::test::rounds_test {
namespace {

using namespace boost::ut;
using text::Value;

const Value& at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  expect(fatal(found != nullptr)) << key;
  return *found;
}

Value read_json(const std::string& path) { return text::parse_json(read_text_file(path), path); }
Value::Array list_of(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }

// What the program wrote for prompts.
struct Played {
  Outcome run;
  Value::Array prompts;

  Played(const std::string& target, const Value::Array& ids, const std::string& arguments) {
    const TemporaryFolder folder;
    folder.write("ids.json", text::to_json(ids));
    run = lapidary("rounds " + target + " --numeric exact --ids " + folder.path("ids.json") + " -o " + folder.path("out.json") + " " + arguments);
    if (run.status == 0) prompts = *at(read_json(folder.path("out.json")), "prompts").array();
  }
};

// As far as the program has it: a recording may say more.
void expect_rounds(const Value& played, const Value& recorded, const std::string& where) {
  const Value::Array &ours = *at(played, "rounds").array(), &theirs = *recorded.array();
  expect(fatal(eq(ours.size(), theirs.size()))) << where;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    expect(eq(ours[i].object()->size(), 5_ul));
    for (const auto& [key, value] : *ours[i].object()) expect(value == at(theirs[i], key)) << where << "round" << i << key;
  }
}

const suite<"lapidary rounds"> rounds = [] {
  for (const Pair& pair : fixture_pairs())
    boost::ut::test("the recorded rounds of the assistant for " + pair.name) = [pair] {
      const Expected expected(pair.assistant + "/rounds.safetensors.xz");
      const Value recorded = read_json(pair.assistant + "/rounds.json");
      Value::Array ids;
      for (const char* prompt : {"prompt0.", "prompt1."}) ids.push_back(list_of(expected.ids(std::string(prompt) + "input_ids")));
      for (const char* k : {"1", "2", "4"}) {
        const Played played(pair.target, ids, "--temperature 0 -n 40 --draft-kind mtp --draft-tokens " + std::string(k) + " --draft-model " + pair.assistant);
        expect(fatal(played.run.status == 0 && played.prompts.size() == 2u)) << played.run.err;
        for (std::size_t p = 0; p < 2; ++p) {
          expect(at(played.prompts[p], "input_ids") == ids[p]);
          expect(at(played.prompts[p], "tokens") == list_of(expected.ids("prompt" + std::to_string(p) + ".greedy")));
          expect_rounds(played.prompts[p], at(at(at((*at(recorded, "prompts").array())[p], "widths"), k), "rounds"), pair.name + k);
        }
      }
    };

  for (const char* name : {"dense-bf16", "moe-4bit", "moe-bf16", "ple-bf16", "unified-bf16"})
    boost::ut::test("the recorded rounds of the DFlash drafter for " + std::string(name)) = [name] {
      const std::string folder = kFixtures + "/dflash/" + name, target = kFixtures + "/models/" + name;
      const Value recorded = read_json(folder + "/rounds.json");
      for (const Value& prompt : *at(recorded, "prompts").array()) {
        const Value& sampling = at(prompt, "sampling");
        const std::string sampled = "--temperature " + text::to_json(at(sampling, "temperature")) + " --top-k " + text::to_json(at(sampling, "top_k")) +
                                    " --top-p " + text::to_json(at(sampling, "top_p")) + " --seed " + *at(sampling, "seed").string();
        for (const auto& [run, drafts] : {std::pair{"greedy-5", "4"}, {"greedy-mixed", "7,2,0,4,0,0,7,1"}, {"sampled-mixed", "7,2,0,4,0,0,7,1"}}) {
          const bool greedy = std::string_view(run).starts_with("greedy");
          const Played played(target, {at(prompt, "input_ids")},
                              "-n 40 --draft-kind dflash --draft-model " + folder + " --draft-tokens " + drafts + " " + (greedy ? "--temperature 0" : sampled));
          expect(fatal(played.run.status == 0)) << played.run.err;
          expect(at(played.prompts[0], "tokens") == at(prompt, greedy ? "greedy" : "sampled"));
          expect_rounds(played.prompts[0], at(at(at(prompt, "runs"), run), "rounds"), std::string(name) + " " + run);
        }
      }
    };

  "lookup and nobody give the same tokens"_test = [] {
    const std::string target = kFixtures + "/models/dense-bf16";
    Value::Array ids = {4};  // whatever is chosen has stood behind 4 before
    for (int id = 5; id < 244; ++id) ids.insert(ids.end(), {id, 4});
    const Played none(target, {Value(ids)}, "--draft-kind none --draft-tokens 3 -n 20 --seed 3"),
        lookup(target, {Value(ids)}, "--draft-kind lookup --draft-tokens 3 -n 20 --seed 3");
    expect(fatal(none.run.status == 0 && lookup.run.status == 0)) << none.run.err << lookup.run.err;
    expect(at(none.prompts[0], "tokens") == at(lookup.prompts[0], "tokens"));
    expect(eq(at(none.prompts[0], "rounds").array()->size(), 19_ul)) << "the first token comes with the prompt";
    for (const Value& round : *at(none.prompts[0], "rounds").array()) expect(at(round, "drafts").array()->empty());
    std::size_t drafted = 0;
    for (const Value& round : *at(lookup.prompts[0], "rounds").array()) drafted += at(round, "drafts").array()->size();
    expect(drafted > 0u);
  };

  "what cannot be played is refused"_test = [] {
    const std::string target = kFixtures + "/models/dense-bf16";
    const Value::Array ids = {Value(Value::Array{5, 6, 7})};
    for (const auto& [arguments, words] : {std::pair{"--draft-tokens 1 -n 3", "[--draft-kind]"}, {"--draft-kind none -n 3", "--draft-tokens"},
                                           {"--draft-kind none --draft-tokens 8 -n 3", "[--draft-tokens]"}, {"--draft-kind none --draft-tokens 1", "max-tokens"},
                                           {"--draft-kind dflash --draft-tokens 1 -n 3", "dflash, expected a drafter of this kind"},
                                           {"--draft-kind none --draft-tokens 1 -n 9 --context 6", "[--context]"}}) {
      const Played played(target, ids, arguments);
      expect(played.run.status == 2 && played.run.err.find(words) != std::string::npos) << arguments << played.run.err;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::rounds_test
