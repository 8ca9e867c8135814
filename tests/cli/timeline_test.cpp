// lapidary bench --timeline and --ops as a user meets them.
#include <boost/ut.hpp>

#include "support/timeline.hpp"

namespace lapidary::test::timeline_test {
namespace {

using namespace boost::ut;

const suite<"lapidary bench --timeline"> timeline = [] {
  "holds every step of prompts, tokens and rounds, in order"_test = [] {
    for (const char* name : {"moe-4bit", "ple-bf16"}) expect_timeline(LAPIDARY_PROGRAM, kFixtures + "/models/" + name);
  };

  "is there as a whole or not at all"_test = [] {
    const TemporaryFolder folder;
    const std::string bench = "bench " + kFixtures + "/models/dense-bf16 -p 0 -n 0 --timeline ";
    const Outcome run = lapidary(bench + folder.path("no/such/folder"));
    expect(run.status == 1_i && run.err.starts_with("[" + folder.path("no/such/folder"))) << run.err;
    expect(lapidary(bench + folder.path("t.json")).status == 0_i);
    expect(Timeline(folder.path("t.json")).runs.size() == 4_u);
    expect(!std::filesystem::exists(folder.path("t.json.partial")));
    std::filesystem::create_directory(folder.path("taken"));
    expect(lapidary(bench + folder.path("taken")).status == 1_i);
    expect(!std::filesystem::exists(folder.path("taken.partial")));
  };
};

const suite<"lapidary bench --ops"> ops = [] {
  "tells where the time of a token goes"_test = [] {
    const Outcome run = lapidary("bench " + kFixtures + "/models/moe-4bit -p 0 -n 0 --ops --json");
    expect(fatal(run.status == 0)) << run.err;
    simdjson::dom::parser parser;
    simdjson::dom::document_stream lines = parser.parse_many(run.out);
    double share = 0;
    bool has_experts = false;
    for (const simdjson::dom::element line : lines) {
      std::string_view kernel;
      if (line["kernel"].get(kernel)) continue;
      share += double(line["share"]);
      has_experts = has_experts || kernel.starts_with("expert_gelu_mul_f32 affine4/64 ");
    }
    expect(std::abs(share - 1) < 1e-9 && has_experts);
  };
};

}  // namespace
}  // namespace lapidary::test::timeline_test
