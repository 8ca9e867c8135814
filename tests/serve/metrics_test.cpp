// What Prometheus reads.
#include <boost/ut.hpp>

#include <map>
#include <set>
#include <sstream>

#include "serve/metrics.hpp"

namespace lapidary::test::metrics_test {
namespace {

using namespace boost::ut;
using namespace serve;

struct Parsed {
  std::map<std::string, std::string> types;    // by family
  std::map<std::string, double> values;        // by name with labels
  std::vector<std::string> wrong;              // lines
};

// As format 0.0.4 has it: HELP, TYPE, then lines of that family and of no other.
Parsed parse(const std::string& text) {
  Parsed parsed;
  std::istringstream lines(text);
  std::set<std::string> helped;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second, name;
    words >> first >> second >> name;
    if (first == "#" && second == "HELP") {
      if (!helped.insert(name).second) parsed.wrong.push_back(line);
      family = name;
      continue;
    }
    if (first == "#") {
      std::string type;
      words >> type;
      if (second != "TYPE" || name != family || parsed.types.contains(name)) parsed.wrong.push_back(line);
      parsed.types[name] = type;
      continue;
    }
    const std::size_t space = line.rfind(' ');
    const std::string key = line.substr(0, space), plain = key.substr(0, key.find('{'));
    const std::string suffix = plain.starts_with(family) ? plain.substr(family.size()) : "?";
    const bool fits = parsed.types[family] == "histogram" ? suffix == "_bucket" || suffix == "_sum" || suffix == "_count" : suffix.empty();
    if (!fits || parsed.values.contains(key) || (key.find('{') != key.npos && !key.ends_with('}'))) parsed.wrong.push_back(line);
    parsed.values[key] = std::stod(line.substr(space + 1));
  }
  if (!text.ends_with('\n')) parsed.wrong.push_back("no end of line");
  return parsed;
}

const suite<"metrics"> metrics = [] {
  "are well formed and have all families"_test = [] {
    Metrics metrics;
    metrics.requests[{"/v1/chat/completions", 200}] = 3;
    metrics.requests[{"other", 404}] = 1;
    metrics.count({.prompt_tokens = 10, .cached_tokens = 4, .completion_tokens = 7, .reasoning_tokens = 2, .accepted_drafts = 3, .rejected_drafts = 5});
    metrics.count({.prompt_tokens = 1, .completion_tokens = 1});
    ++metrics.cancelled["client"];
    metrics.queue_s.observe(0.5);
    Metrics::Now now{.running = 1, .waiting = 2, .slots = 4, .kv_bytes = 100, .cache_bytes = 50, .evictions = 6, .rounds_by_rows = {{1, 8}, {2, 9}}, .version = "0", .model = "m", .backend = "cpu", .numeric = "exact"};
    now.round_s.observe(0.002);
    const Parsed parsed = parse(metrics.text(now));
    expect(parsed.wrong.empty()) << (parsed.wrong.empty() ? "" : parsed.wrong.front());
    const std::map<std::string, std::string> types{
        {"lapidary_requests_total", "counter"}, {"lapidary_prompt_tokens_total", "counter"}, {"lapidary_prompt_tokens_cached_total", "counter"},
        {"lapidary_completion_tokens_total", "counter"}, {"lapidary_reasoning_tokens_total", "counter"}, {"lapidary_draft_tokens_total", "counter"},
        {"lapidary_rounds_total", "counter"}, {"lapidary_cancelled_total", "counter"}, {"lapidary_prefix_cache_evictions_total", "counter"},
        {"lapidary_requests_running", "gauge"}, {"lapidary_requests_waiting", "gauge"}, {"lapidary_slots", "gauge"}, {"lapidary_kv_bytes", "gauge"},
        {"lapidary_prefix_cache_bytes", "gauge"}, {"lapidary_build_info", "gauge"}, {"lapidary_queue_seconds", "histogram"},
        {"lapidary_time_to_first_token_seconds", "histogram"}, {"lapidary_time_per_token_seconds", "histogram"}, {"lapidary_round_seconds", "histogram"}};
    expect(parsed.types == types);
    const std::map<std::string, double> some{
        {"lapidary_requests_total{endpoint=\"/v1/chat/completions\",code=\"200\"}", 3}, {"lapidary_requests_total{endpoint=\"other\",code=\"404\"}", 1},
        {"lapidary_prompt_tokens_total", 11}, {"lapidary_prompt_tokens_cached_total", 4}, {"lapidary_completion_tokens_total", 8},
        {"lapidary_reasoning_tokens_total", 2}, {"lapidary_draft_tokens_total{outcome=\"accepted\"}", 3}, {"lapidary_draft_tokens_total{outcome=\"rejected\"}", 5},
        {"lapidary_rounds_total{rows=\"1\"}", 8}, {"lapidary_rounds_total{rows=\"2\"}", 9}, {"lapidary_cancelled_total{reason=\"client\"}", 1},
        {"lapidary_cancelled_total{reason=\"timeout\"}", 0}, {"lapidary_cancelled_total{reason=\"drain\"}", 0}, {"lapidary_prefix_cache_evictions_total", 6},
        {"lapidary_requests_running", 1}, {"lapidary_requests_waiting", 2}, {"lapidary_slots", 4}, {"lapidary_kv_bytes", 100},
        {"lapidary_prefix_cache_bytes", 50}, {"lapidary_build_info{version=\"0\",model=\"m\",backend=\"cpu\",numeric=\"exact\"}", 1},
        {"lapidary_queue_seconds_count", 1}, {"lapidary_queue_seconds_sum", 0.5}, {"lapidary_round_seconds_count", 1}};
    for (const auto& [name, value] : some) expect(parsed.values.contains(name) && parsed.values.at(name) == value) << name;
  };

  "say how many values a bound holds, itself included"_test = [] {
    Histogram values({0.5, 1});
    for (const double value : {0.25, 0.5, 0.75, 1.0, 1.5}) values.observe(value);
    std::string text;
    values.write(text, "x");
    expect(text == "x_bucket{le=\"0.5\"} 2\nx_bucket{le=\"1.0\"} 4\nx_bucket{le=\"+Inf\"} 5\nx_sum 4.0\nx_count 5\n") << text;
  };

  "keep what stands in a label inside of it"_test = [] {
    const Parsed parsed = parse(Metrics().text({.model = "a\"b\\c\nd"}));
    expect(parsed.wrong.empty());
    expect(parsed.values.contains("lapidary_build_info{version=\"\",model=\"a\\\"b\\\\c d\",backend=\"\",numeric=\"\"}"));
  };
};

}  // namespace
}  // namespace lapidary::test::metrics_test
