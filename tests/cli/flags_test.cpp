// The command line itself: numbers, names and what is said of mistakes in them.
#include <boost/ut.hpp>

#include "support/program.hpp"
#include "text/value.hpp"

namespace lapidary::test::flags_test {
namespace {

using namespace boost::ut;

const std::string kPebble = kRoot + "/models/pebble";

const suite<"flags"> flags = [] {
  "a number that is none, or out of range, is refused in one line that says what is expected"_test = [] {
    for (const auto& [arguments, line] : std::vector<std::pair<std::string, std::string>>{
             {"generate hi --temperature nan", "[--temperature] expected a number from 0 to 100, got 'nan'\n"},
             {"generate hi --top-p nan", "[--top-p] expected a number from 0 to 1, got 'nan'\n"},
             {"generate hi --min-p inf", "[--min-p] expected a number from 0 to 1, got 'inf'\n"},
             {"generate hi --repetition-penalty nan", "[--repetition-penalty] expected a number from 0.01 to 100, got 'nan'\n"},
             {"generate hi --presence-penalty nan", "[--presence-penalty] expected a number from -100 to 100, got 'nan'\n"},
             {"generate hi --frequency-penalty 1e999", "[--frequency-penalty] expected a number from -100 to 100, got '1e999'\n"},
             {"generate hi --temperature 0x1", "[--temperature] expected a number from 0 to 100, got '0x1'\n"},
             {"generate hi --temperature ''", "[--temperature] expected a number from 0 to 100, got ''\n"},
             {"generate hi --seed -1", "[--seed] expected a whole number from 0 to 18446744073709551615, got '-1'\n"},
             {"generate hi --seed 18446744073709551616",
              "[--seed] expected a whole number from 0 to 18446744073709551615, got '18446744073709551616'\n"},
             {"generate hi --seed 1.5", "[--seed] expected a whole number from 0 to 18446744073709551615, got '1.5'\n"},
             {"generate hi --max-tokens 0", "[--max-tokens] expected a whole number of at least 1, got '0'\n"},
             {"generate hi --context 4k", "[--context] expected a whole number of at least 1, got '4k'\n"},
             {"generate hi --threads 257", "[--threads] expected a whole number from 1 to 256, got '257'\n"},
             {"generate hi --logit-bias 5=nan", "[--logit-bias] expected a number or -inf after ID=, got '5=nan'\n"},
             {"bench " + kPebble + " -p -5", "[--prompt] expected a whole number of at least 0, got '-5'\n"},
             {"bench " + kPebble + " -n 3,-5", "[--generate] expected a whole number of at least 0, got '-5'\n"},
             {"bench " + kPebble + " --acceptance nan", "[--acceptance] expected a number from 0 to 1, got 'nan'\n"},
             {"bench " + kPebble + " --widths 9", "[--widths] expected a whole number from 1 to 8, got '9'\n"},
             {"generate hi --draft-kind eagle", "[--draft-kind] expected one of auto, mtp, dflash, lookup, none, got 'eagle'\n"},
             {"generate hi --draft-tokens 8", "[--draft-tokens] expected one of auto, 0, 1, 2, 3, 4, 5, 6, 7, got '8'\n"},
             {"generate hi --model ''", "[--model] expected a name, got none\n"},
             {"tokenize hi --model ''", "[--model] expected a name, got none\n"},
             {"generate --file ''", "[--file] expected a name, got none\n"},
             {"generate hi --tools ''", "[--tools] expected a name, got none\n"},
         }) {
      const Outcome run = lapidary(arguments);
      expect(run.status == 2_i && run.err == line) << arguments << run.err;
    }
  };

  "a seed is read as it is written"_test = [] {
    for (const auto& [written, read] : {std::pair{"010", "10"}, {"18446744073709551615", "18446744073709551615"}}) {
      const Outcome run = lapidary("generate hi --json --max-tokens 1 --seed " + std::string(written));
      expect(fatal(run.status == 0_i)) << run.err;
      expect(*text::parse_json(run.out, "output").find("stats")->find("seed") == text::Value(read)) << run.out;
    }
  };

  "a bias of -inf forbids a token"_test = [] {
    const std::string greedy = "generate --json --temperature 0 --max-tokens 1 'Spell the word garden.' --logit-bias ";
    const auto first = [&](const std::string& bias) {
      const Outcome run = lapidary(greedy + bias);
      expect(fatal(run.status == 0_i)) << run.err;
      return *(*text::parse_json(run.out, "output").find("ids")->array())[0].integer();
    };
    const std::int64_t likeliest = first("0=0");
    expect(first(std::to_string(likeliest) + "=-inf") != likeliest);
  };
};

}  // namespace
}  // namespace lapidary::test::flags_test
