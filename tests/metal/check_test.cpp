// lapidary metal-check, and what else a Mac owner looks at the GPU with.
#include <boost/ut.hpp>

#include <algorithm>

#include "support/slow_build.hpp"
#include "support/timeline.hpp"

namespace lapidary::test::check_test {
namespace {

using namespace boost::ut;

const std::string kProgram = std::string(LAPIDARY_PROGRAM) + "-metal";

const suite<"lapidary metal-check"> check = [] {
  if (!kSlowBuild) "every kernel passes on this device, and the receipt says so"_test = [] {
    const TemporaryFolder folder;
    const Outcome run = shell(kProgram + " metal-check --out " + folder.path("receipt.json"));
    expect(fatal(run.status == 0)) << run.out << run.err;
    const auto lines = [&](const std::string& begin) {
      std::ptrdiff_t count = 0;
      for (std::size_t at = 0; (at = run.out.find("\n" + begin, at)) != run.out.npos; ++at) ++count;
      return count;
    };
    expect(lines("FAILED") == 0_l) << run.out;
    expect(run.out.ends_with(std::to_string(lines("ok")) + " passed, 0 failed\n")) << run.out;

    simdjson::dom::parser parser;
    const simdjson::dom::element receipt = parser.load(folder.path("receipt.json"));
    expect(std::int64_t(receipt["passed"]) == lines("ok") && std::int64_t(receipt["failed"]) == 0);
    const simdjson::dom::array checks = receipt["checks"];
    expect(static_cast<std::ptrdiff_t>(checks.size()) == lines("ok"));
    double largest = 0;
    for (const simdjson::dom::element one : checks) largest = std::max(largest, double(one["error"]));
    expect(largest > 0.0_d && largest <= 1.0_d);  // rounding there is, so something was compared
    expect(double(receipt["pebble"]["decoded_tokens_s"]) > 0.0_d);
    for (const char* key : {"lapidary", "device", "system"}) expect(!std::string_view(receipt[key]).empty()) << key;
    expect(std::int64_t(receipt["memory_bytes"]) > 0);
  };

  "is no command of a program without Metal"_test = [] { expect(lapidary("metal-check").status == 2_i); };
};

const suite<"lapidary bench --timeline on the GPU"> timeline = [] {
  "holds every step, by the device's clock"_test = [] { expect_timeline(kProgram, kFixtures + "/models/moe-4bit"); };
};

const suite<"lapidary --capture"> capture = [] {
  static const std::string kEnabled = "MTL_CAPTURE_ENABLED=1 ";
  static const std::string kBench = " bench " + kFixtures + "/models/dense-bf16 -p 0 -n 3";

  "writes the round that was asked for"_test = [] {
    const TemporaryFolder folder;
    const Outcome run = shell(kEnabled + kProgram + kBench + " --capture-round 2 --capture " + folder.path("two.gputrace"));
    expect(run.status == 0_i) << run.err;
    expect(std::filesystem::exists(folder.path("two.gputrace")));
  };

  "says what is missing"_test = [] {
    const TemporaryFolder folder;
    const std::string flag = " --capture " + folder.path("x.gputrace"), other = " --capture " + folder.path("x.json");
    std::filesystem::create_directory(folder.path("old.gputrace"));
    for (const auto& [command, mention] : std::vector<std::pair<std::string, std::string>>{
             {kProgram + kBench + flag, "MTL_CAPTURE_ENABLED=1"},
             {kEnabled + kProgram + kBench + other, ".gputrace"},
             {kEnabled + kProgram + kBench + " --capture " + folder.path("old.gputrace"), "which exists"},
             {kEnabled + kProgram + kBench + " --backend cpu" + flag, "--backend metal"},
             {kEnabled + kProgram + kBench + " --capture-round 99" + flag, "99"},
             {kEnabled + kProgram + kBench + " --capture-round 2", "--capture"}}) {
      const Outcome run = shell(command);
      expect(run.status == 2_i) << command << run.err;
      expect(run.err.find(mention) != run.err.npos) << command << run.err;
      expect(!std::filesystem::exists(folder.path("x.gputrace"))) << command;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::check_test
