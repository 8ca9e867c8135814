#include "serve/metrics.hpp"

#include <algorithm>

#include "text/value.hpp"

namespace lapidary::serve {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }
std::string number(std::size_t value) { return std::to_string(value); }
std::string number(int value) { return std::to_string(value); }
std::string number(double value) { return text::number_text(value); }

// As a label has it.
std::string in_quotes(std::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text + '"';
}

class Page {
 public:
  template <class Value>
  void metric(std::string_view type, std::string_view name, std::string_view help, Value value) {
    begin(type, name, help);
    line(name, "", value);
  }
  void begin(std::string_view type, std::string_view name, std::string_view help) {
    text.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  template <class Value>
  void line(std::string_view name, const std::string& labels, Value value) {
    text.append(name);
    if (!labels.empty()) text.append("{").append(labels).append("}");
    text.append(" ").append(number(value)).append("\n");
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values) {
    begin("histogram", name, help);
    values.write(text, name);
  }

  std::string text;
};

}  // namespace

void Histogram::observe(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& text, std::string_view name) const {
  std::int64_t total = 0;
  const std::string bucket = std::string(name) + "_bucket{le=\"";
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    text.append(bucket).append(i < bounds_.size() ? number(bounds_[i]) : "+Inf").append("\"} ").append(number(total)).append("\n");
  }
  text.append(name).append("_sum ").append(number(sum_)).append("\n");
  text.append(name).append("_count ").append(number(total)).append("\n");
}

void Metrics::count(const Usage& usage) {
  tokens.prompt_tokens += usage.prompt_tokens;
  tokens.cached_tokens += usage.cached_tokens;
  tokens.completion_tokens += usage.completion_tokens;
  tokens.reasoning_tokens += usage.reasoning_tokens;
  tokens.accepted_drafts += usage.accepted_drafts;
  tokens.rejected_drafts += usage.rejected_drafts;
}

std::string Metrics::text(const Now& now) const {
  Page page;
  page.begin("counter", "lapidary_requests_total", "Requests answered, by endpoint and status.");
  for (const auto& [key, count] : requests)
    page.line("lapidary_requests_total", "endpoint=" + in_quotes(key.first) + ",code=\"" + number(key.second) + "\"", count);
  page.metric("counter", "lapidary_prompt_tokens_total", "Tokens of prompts, cached ones included.", tokens.prompt_tokens);
  page.metric("counter", "lapidary_prompt_tokens_cached_total", "Tokens of prompts that were not computed again.", tokens.cached_tokens);
  page.metric("counter", "lapidary_completion_tokens_total", "Tokens generated.", tokens.completion_tokens);
  page.metric("counter", "lapidary_reasoning_tokens_total", "Tokens of thoughts among those generated.", tokens.reasoning_tokens);
  page.begin("counter", "lapidary_draft_tokens_total", "Drafts verified, by what became of them.");
  page.line("lapidary_draft_tokens_total", "outcome=\"accepted\"", tokens.accepted_drafts);
  page.line("lapidary_draft_tokens_total", "outcome=\"rejected\"", tokens.rejected_drafts);
  page.begin("counter", "lapidary_rounds_total", "Rounds, by their rows: a token of each session in them, and drafts.");
  for (const auto& [rows, count] : now.rounds_by_rows) page.line("lapidary_rounds_total", "rows=\"" + number(rows) + "\"", count);
  page.begin("counter", "lapidary_cancelled_total", "Requests that ended before their time, by why.");
  for (const auto& [reason, count] : cancelled) page.line("lapidary_cancelled_total", "reason=" + in_quotes(reason), count);
  page.metric("counter", "lapidary_prefix_cache_evictions_total", "Beginnings of texts dropped for newer ones.", now.evictions);
  page.metric("gauge", "lapidary_requests_running", "Requests at work.", now.running);
  page.metric("gauge", "lapidary_requests_waiting", "Requests in the queue.", now.waiting);
  page.metric("gauge", "lapidary_slots", "Sessions that can run at a time.", now.slots);
  page.metric("gauge", "lapidary_kv_bytes", "Bytes reserved for K/V.", now.kv_bytes);
  page.metric("gauge", "lapidary_prefix_cache_bytes", "Bytes of the prefix cache in use.", now.cache_bytes);
  page.begin("gauge", "lapidary_build_info", "What runs.");
  page.line("lapidary_build_info",
            "version=" + in_quotes(now.version) + ",model=" + in_quotes(now.model) + ",backend=" + in_quotes(now.backend) + ",numeric=" + in_quotes(now.numeric), 1);
  page.histogram("lapidary_queue_seconds", "Time in the queue.", queue_s);
  page.histogram("lapidary_time_to_first_token_seconds", "From a session's start to the first token.", first_token_s);
  page.histogram("lapidary_time_per_token_seconds", "After the first token, mean of a request.", token_s);
  page.histogram("lapidary_round_seconds", "A round of all sessions in it.", now.round_s);
  return page.text;
}

}  // namespace lapidary::serve
