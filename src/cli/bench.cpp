// lapidary bench: load time, memory against the plan, and tokens per second, one JSON object per line.
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

#include "cli/commands.hpp"
#include "cli/model.hpp"
#include "cpu/executor.hpp"
#include "decode/session.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

struct BenchFlags {
  ModelFlags model;
  std::vector<int> prompts = {64};
  std::vector<int> generations = {32};
  int depth = 0;
};

using text::Value;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A line "RssAnon:  1234 kB" of what the system knows about this process; 0 where it does not tell.
std::int64_t resident_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

// Token ids do not matter for speed; these spread over the vocabulary.
std::vector<std::int32_t> some_tokens(int count, int vocab) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>((i * 7919LL + 13) % vocab));
  return tokens;
}

void print(const Value& line) { std::cout << text::to_json(line) << std::endl; }

void report(const char* test, int n, int depth, double seconds) {
  print(Value::Object{{"test", test}, {"n", n}, {"depth", depth}, {"tok_s", n / seconds}});
}

void fill(decode::Session& session, int tokens, int vocab) {
  session.rollback(0);
  if (tokens) session.prefill(some_tokens(tokens, vocab));
}

void run(BenchFlags flags) {
  int longest = 1;
  for (const auto* lengths : {&flags.prompts, &flags.generations})
    for (const int n : *lengths) longest = std::max(longest, n + flags.depth);
  if (!flags.model.options.context_tokens) flags.model.options.context_tokens = longest;

  const Clock::time_point start = Clock::now();
  const link::Program program = flags.model.load();
  const auto executor = cpu::make_executor(program, program.plan.threads);
  const double load_seconds = seconds_since(start);

  const int vocab = program.graph->shape.vocab;
  decode::Session session(program, *executor);
  fill(session, 1, vocab);  // warm-up
  for (const int n : flags.prompts) {
    if (n == 0) continue;
    fill(session, flags.depth, vocab);
    const auto tokens = some_tokens(n, vocab);
    const Clock::time_point begin = Clock::now();
    session.prefill(tokens);
    report("pp", n, flags.depth, seconds_since(begin));
  }
  for (const int n : flags.generations) {
    if (n == 0) continue;
    fill(session, flags.depth, vocab);
    const auto tokens = some_tokens(n, vocab);
    const Clock::time_point begin = Clock::now();
    for (const std::int32_t token : tokens) session.forward({&token, 1});
    report("tg", n, flags.depth, seconds_since(begin));
  }

  fill(session, program.plan.context_tokens, vocab);
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count); };
  print(Value::Object{{"load_s", load_seconds},
                      {"context_tokens", program.plan.context_tokens},
                      {"plan_anonymous_bytes", bytes(program.plan.anonymous_bytes())},
                      {"resident_anonymous_bytes", resident_bytes("RssAnon")},
                      {"plan_weights_mapped_bytes", bytes(program.plan.weights_mapped_bytes)},
                      {"resident_file_bytes", resident_bytes("RssFile")}});
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure load time, memory with a full context, and tokens per second");
  const auto flags = std::make_shared<BenchFlags>();
  flags->model.add_to(*command);
  command->add_option("-p,--prompt", flags->prompts, "prompt lengths to measure, 0 for none")->delimiter(',');
  command->add_option("-n,--generate", flags->generations, "numbers of decoded tokens to measure, 0 for none")->delimiter(',');
  command->add_option("-d,--depth", flags->depth, "tokens in the cache before the measured ones");
  command->callback([flags] { run(*flags); });
}

}  // namespace lapidary::cli
