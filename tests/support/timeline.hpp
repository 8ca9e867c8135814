// What `lapidary bench --timeline` writes: runs, and the steps of each.
#pragma once

#include <boost/ut.hpp>

#include <map>

#include "support/program.hpp"

namespace lapidary::test {

struct Timeline {
  struct Event {
    std::string category, name;
    double begin_us = 0, end_us = 0;
    std::int64_t rows = 0, weight_bytes = 0;
  };
  struct Run : Event {
    std::vector<Event> steps;
  };
  std::vector<Run> runs;

  explicit Timeline(const std::string& path) {
    simdjson::dom::parser parser;
    for (const simdjson::dom::element entry : parser.load(path)["traceEvents"]) {
      if (std::string_view(entry["ph"]) != "X") continue;
      Event event{.category = std::string(std::string_view(entry["cat"])),
                  .name = std::string(std::string_view(entry["name"])), .begin_us = entry["ts"]};
      event.end_us = event.begin_us + double(entry["dur"]);
      if (event.category == "run") {
        runs.push_back({event, {}});
        continue;
      }
      event.rows = entry["args"]["rows"];
      event.weight_bytes = entry["args"]["weight_bytes"];
      runs.back().steps.push_back(event);
    }
  }
};

// The timeline of a model holds every step of a prompt, of tokens and of a round once, in order, with the bytes they read.
inline void expect_timeline(const std::string& program, const std::string& model) {
  using namespace boost::ut;
  const Outcome inspect = shell(program + " inspect " + model + " --draft-kind none --json --graph");
  simdjson::dom::parser parser;
  const simdjson::dom::element facts = parser.parse(inspect.out);
  const std::int64_t token_bytes = facts["per_token"]["weight_bytes"], token_steps = facts["per_token"]["steps"];
  std::map<std::string, std::size_t> steps;  // by segment
  for (const simdjson::dom::element step : facts["steps"]) ++steps[std::string(std::string_view(step["segment"]))];

  const TemporaryFolder folder;
  const std::string file = folder.path("t.json");
  const Outcome run = shell(program + " bench " + model + " -p 5 -n 0 --widths 3 --threads 2 --timeline " + file);
  expect(fatal(run.status == 0)) << run.err;
  const Timeline timeline(file);
  std::vector<std::string> names;
  for (const Timeline::Run& one : timeline.runs) names.push_back(one.name);
  expect(fatal(names == std::vector<std::string>{"prompt of 5", "token", "token", "token", "token", "round of 3"}));

  double now_us = 0;
  for (const Timeline::Run& one : timeline.runs) {
    const bool is_prompt = one.name == "prompt of 5", is_token = one.name == "token";
    std::int64_t bytes = 0;
    std::map<std::string, std::size_t> seen;
    expect(one.begin_us >= now_us - 1e-3) << one.name;
    now_us = one.begin_us;
    for (const Timeline::Event& step : one.steps) {
      expect(step.begin_us >= now_us - 1e-3 && step.end_us >= step.begin_us) << one.name << step.name;
      now_us = step.end_us;
      bytes += step.weight_bytes;
      ++seen[step.category];
    }
    expect(one.end_us >= now_us - 1e-3) << one.name;
    for (const char* segment : {is_prompt ? "prefill" : "forward", "head", "select"}) {
      expect(seen[segment] == steps[segment]) << one.name << segment;
      seen.erase(segment);
    }
    expect(seen.empty()) << one.name;
    if (is_token) expect(bytes == token_bytes && static_cast<std::int64_t>(one.steps.size()) == token_steps);
    else expect(bytes > token_bytes);  // more rows look up more rows of the tables
    const std::int64_t rows = is_token ? 1 : is_prompt ? 5 : 3;
    expect(one.steps.front().rows == rows && one.steps.back().rows == (is_prompt ? 1 : rows)) << one.name;
  }
}

}  // namespace lapidary::test
