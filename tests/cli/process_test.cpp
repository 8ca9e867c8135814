// The program among others: what it is started with, where its output goes, what happens to its model.
#include <boost/ut.hpp>

#include "support/program.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::process_test {
namespace {

using namespace boost::ut;

const std::string kPebble = kRoot + "/models/pebble";
const std::string kDense = kFixtures + "/models/dense-bf16";
const std::string kGreedy = "generate --temperature 0 --threads 1 ";

const suite<"standard streams"> streams = [] {
  "output that is lost is an error in every command"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "Spell the word garden.\n");
    folder.write("ids.json", "[[1,2,3]]");
    for (const std::string& command :
         {kGreedy + "story --max-tokens 3", kGreedy + "story --max-tokens 3 --json", "chat --max-tokens 3 <" + folder.path("in"),
          "inspect " + kDense, "inspect " + kDense + " --json", "bench " + kDense + " -p 0 -n 1", std::string("tokenize hi"),
          std::string("man"), std::string("completions bash"), std::string("--help"), std::string("generate --help"),
          "logits " + kDense + " --greedy 1 --ids " + folder.path("ids.json") + " -o " + folder.path("o")})
      for (const auto& [where, why] : {std::pair{" >/dev/full", "No space left on device"}, {" >&-", "Bad file descriptor"}}) {
        const Outcome run = lapidary(command + where);
        expect(run.status == 1_i) << command << where;
        const std::string line = std::string("[standard output] cannot be written: ") + why + "\n";
        expect(run.err.ends_with(line)) << command << where << run.err;
      }
  };

  "a reader that goes away ends it quietly"_test = [] {
    const Outcome run = lapidary("man | head -n 1");
    expect(run.status == 0_i && run.err.empty()) << run.err;
  };

  "standard input that is closed is empty"_test = [] {
    const Outcome chat = lapidary("chat --max-tokens 3 <&-");
    expect(chat.status == 0_i && chat.out.empty() && chat.err.empty()) << chat.err;
    expect(lapidary("generate <&-").status == 2_i);
    expect(lapidary(kGreedy + "story --max-tokens 3 2>&-").status == 0_i);
  };
};

const suite<"limits of the machine"> limits = [] {
  // A sanitized program needs more addresses than a limit leaves.
  if (!kSlowBuild) "threads that cannot be had are an error"_test = [] {
    const Outcome run = shell(std::string("ulimit -v 400000; ") + LAPIDARY_PROGRAM + " generate hi --threads 200 --max-tokens 3");
    expect(run.status == 1_i && run.err.starts_with("[threads] expected 200, got ")) << run.err;
  };

  if (shell("command -v taskset").status == 0) "one core gets one thread"_test = [] {
    const Outcome run = shell(std::string("taskset -c 0 ") + LAPIDARY_PROGRAM + " bench " + kPebble + " -p 0 -n 0");
    expect(run.out.find(", 1 threads, ") != std::string::npos) << run.out << run.err;
  };

  "a model that is cut short while it talks is named, after what it said"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kPebble, folder.path("pebble"));
    const std::string out = folder.path("out"), weights = folder.path("pebble/model.safetensors");
    const Outcome run = shell(std::string(LAPIDARY_PROGRAM) + " generate --temperature 1 --seed 1 --context 8000 --numeric exact " +
                              "--logit-bias 1=-100 --logit-bias 6=-100 'Tell me a story.' --model " + folder.path("pebble") + " >" +
                              out + " & pid=$!; while [ ! -s " + out + " ]; do sleep 0.1; done; truncate -s 4096 " + weights +
                              "; wait $pid");
    expect(run.status == 1_i) << run.status;
    expect(run.err.ends_with("[" + weights + "] changed while in use\n")) << run.err;
    expect(!read_all(out).empty());
  };
};

}  // namespace
}  // namespace lapidary::test::process_test
