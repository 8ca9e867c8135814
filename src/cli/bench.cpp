// lapidary bench: tokens per second of prompts, decoding and rounds, against what the machine can read; memory against plan.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <string>

#include "cli/backend.hpp"
#include "cli/bench.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/timeline.hpp"
#include "cpu/backend.hpp"
#include "cpu/processor.hpp"
#include "decode/session.hpp"
#include "engine/stats.hpp"
#include "link/slots.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

struct BenchFlags {
  ModelFlags model;
  DraftBenchFlags drafts;
  std::vector<int> prompts = {64};
  std::vector<int> generations = {32};
  std::vector<int> widths;
  std::vector<int> sessions;
  int depth = 0;
  bool towers = false, ops = false, json = false, peer_lines = false;
  std::string timeline;
};

using text::Value;

// A line "RssAnon:  1234 kB" of what the system knows about this process; 0 where it does not tell.
std::int64_t resident_bytes(const std::string& field, const char* file = "/proc/self/status") {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  return 0;
}

double at_rank(std::vector<double> times_s, double rank) {
  const auto place = times_s.begin() + static_cast<std::ptrdiff_t>(rank * static_cast<double>(times_s.size() - 1));
  std::nth_element(times_s.begin(), place, times_s.end());
  return *place;
}

// Tokens before anything is measured: enough for nearly all experts, whose weights are mapped when they are used first.
constexpr int kWarmUp = 64;
constexpr int kRounds = 20;  // of each kind, when rounds are compared
constexpr int kComputed = 2048;  // tokens of a text that comes before what is measured; whole tiles

class Bench {
 public:
  explicit Bench(BenchFlags flags)
      : flags_(with_context(std::move(flags))), start_(Clock::now()), program_(flags_.model.load()),
        executor_(program_.backend->make(program_)), load_s_(seconds_since(start_)),
        session_(program_, *executor_) {}

  void run() {
    fill(std::min(kWarmUp, session_.capacity() - 1));
    session_.forward(some_tokens(1, session_.vocab()));
    if (!flags_.peer_lines) read_limit_ = executor_->measure_read_limit();
    if (is_for_people()) {
      std::printf("%s; reads %.1f GB/s\n", describe(program_, flags_.model).c_str(), read_limit_.bytes_per_s / 1e9);
    }
    for (const int n : flags_.prompts)
      if (n) prompt(n);
    for (const int n : flags_.generations)
      if (n) decode(n);
    for (const int width : flags_.widths) round(width);
    for (const int count : flags_.sessions) sessions(count);
    if (flags_.ops) breakdown();
    if (!flags_.timeline.empty()) timeline();
    if (!flags_.peer_lines) memory();
    flags_.model.backend_flags.check_captured();
  }

 private:
  static BenchFlags with_context(BenchFlags flags) {
    int longest = kWarmUp + 1;
    for (const auto* lengths : {&flags.prompts, &flags.generations})
      for (const int n : *lengths) longest = std::max(longest, n + flags.depth);
    if (!flags.widths.empty()) longest = std::max(longest, flags.depth + 8);
    if (!flags.sessions.empty()) {
      longest = std::max(longest, flags.depth + 8 + kRounds);
      flags.model.options.sessions = std::ranges::max(flags.sessions) + 1;
    }
    if (!flags.model.options.context_tokens) flags.model.options.context_tokens = longest;
    return flags;
  }

  bool is_for_people() const { return !flags_.json && !flags_.peer_lines; }

  static void print(const Value& line) { std::cout << text::to_json(line) << std::endl; }

  // A text of so many tokens. Of a long one only the beginning is computed; the K/V of the other positions are its over and over again:
  // numbers of the right kind, which are read as fast as any.
  void fill(int tokens) {
    session_.rollback(0);
    const int computed = std::min(tokens, kComputed);
    if (computed) session_.prefill(some_tokens(computed, session_.vocab()));
    if (computed < tokens) repeat(computed, tokens);
  }

  void repeat(int computed, int tokens) {
    const link::SlotMemory memory = session_.memory();
    link::for_each_head(program_.plan.kv, [&](const link::KvPlacement& layer, std::size_t offset, std::size_t position_bytes) {
      const auto tile_bytes = position_bytes * static_cast<std::size_t>(graph::kTile);
      const int all = std::min((tokens + graph::kTile - 1) / graph::kTile, layer.capacity / graph::kTile);
      const int there = std::min(computed, layer.capacity) / graph::kTile;
      for (int tile = there; tile < all; ++tile)
        std::memcpy(memory.bytes.data() + offset + tile_bytes * static_cast<std::size_t>(tile),
                    memory.bytes.data() + offset + tile_bytes * static_cast<std::size_t>(tile % there), tile_bytes);
    });
    *memory.marks = {.written = tokens};
    session_.adopt(some_tokens(tokens, session_.vocab()), {}, tokens);
  }

  void prompt(int n) {
    fill(flags_.depth);
    const auto tokens = some_tokens(n, session_.vocab());
    const Clock::time_point begin = Clock::now();
    session_.prefill(tokens);
    session_.next();  // a backend may return before it is done
    const double s = seconds_since(begin);
    if (is_for_people()) std::printf("prompt %5d at %5d  %9.1f tok/s  %8.1f ms\n", n, flags_.depth, n / s, s * 1e3);
    else print(Value::Object{{"test", "pp"}, {"n", n}, {"depth", flags_.depth}, {"tok_s", n / s}});
  }

  void decode(int n) {
    fill(flags_.depth);
    std::vector<double> times_s;
    for (const std::int32_t token : some_tokens(n, session_.vocab())) {
      const Clock::time_point begin = Clock::now();
      session_.forward({&token, 1});
      session_.next();
      times_s.push_back(seconds_since(begin));
    }
    double s = 0;
    for (const double time_s : times_s) s += time_s;
    const link::TokenCost cost = link::cost_of_token(program_);
    const double bytes_s = static_cast<double>(cost.weight_bytes) * n / s;
    if (is_for_people()) {
      std::printf("decode %5d at %5d  %9.1f tok/s  %6.1f GB/s, %3.0f %% of what can be read; p50 %.2f ms, p99 %.2f ms, longest %.2f ms; %zu steps\n",
                  n, flags_.depth, n / s, bytes_s / 1e9, 100 * bytes_s / read_limit_.bytes_per_s, at_rank(times_s, 0.5) * 1e3,
                  at_rank(times_s, 0.99) * 1e3, at_rank(times_s, 1) * 1e3, cost.steps);
      return;
    }
    Value::Object line{{"test", "tg"}, {"n", n}, {"depth", flags_.depth}, {"tok_s", n / s}};
    if (flags_.json) {
      line.emplace_back("gb_s", bytes_s / 1e9);
      line.emplace_back("of_read_limit", bytes_s / read_limit_.bytes_per_s);
      line.emplace_back("p50_ms", at_rank(times_s, 0.5) * 1e3);
      line.emplace_back("p99_ms", at_rank(times_s, 0.99) * 1e3);
      line.emplace_back("max_ms", at_rank(times_s, 1) * 1e3);
      line.emplace_back("steps", static_cast<std::int64_t>(cost.steps));
    }
    print(line);
  }

  void play(int rows) {
    session_.forward(some_tokens(rows, session_.vocab()));
    session_.next();
  }

  // Medians, in seconds, of rounds of two kinds that are played in turns, each after the same text.
  template <class One, class Other>
  std::pair<double, double> compare(One&& one, Other&& other) {
    std::vector<double> one_s, other_s;
    const auto time = [&](auto& call, std::vector<double>& times_s) {
      const Clock::time_point begin = Clock::now();
      call();
      times_s.push_back(seconds_since(begin));
    };
    fill(std::max(1, flags_.depth));
    const std::int32_t length = session_.length();
    for (int i = 0; i < kRounds; ++i) {
      time(one, one_s);
      session_.rollback(length);
      time(other, other_s);
      session_.rollback(length);
    }
    return {at_rank(one_s, 0.5), at_rank(other_s, 0.5)};
  }

  // Rounds of so many rows against rounds of one.
  void round(int width) {
    const auto [one_s, s] = compare([&] { play(1); }, [&] { play(width); });
    if (is_for_people()) std::printf("round of %d rows      %9.2f ms, %.2f of one row\n", width, s * 1e3, s / one_s);
    else print(Value::Object{{"test", "round"}, {"rows", width}, {"depth", flags_.depth}, {"ms", s * 1e3}, {"of_one_row", s / one_s}});
  }

  // Rounds of so many sessions with a row each against rounds of as many rows of one more session.
  void sessions(int count) {
    std::vector<std::unique_ptr<decode::Session>> others;
    std::vector<decode::Session::Player> players;
    const decode::Session::RoundHooks hooks;
    for (int slot = 1; slot <= count; ++slot) {
      others.push_back(std::make_unique<decode::Session>(program_, *executor_, slot));
      others.back()->prefill(some_tokens(std::max(1, flags_.depth), session_.vocab()));
      players.push_back({.session = others.back().get(), .hooks = &hooks});
    }
    const auto [one_s, s] = compare([&] { play(count); }, [&] {
      decode::Session::begin_rounds(players);
      for (const auto& other : others) other->end_round();
    });
    if (is_for_people()) std::printf("round of %d sessions  %9.2f ms, %.3f of as many rows of one\n", count, s * 1e3, s / one_s);
    else print(Value::Object{{"test", "sessions"}, {"sessions", count}, {"depth", flags_.depth}, {"ms", s * 1e3}, {"of_one_session", s / one_s}});
  }

  // Where the time of a decoded token goes, by kernel and shape.
  void breakdown() {
    constexpr int kTokens = 16;
    fill(std::max(1, flags_.depth));
    std::map<std::string, std::pair<double, std::int64_t>> kernels;  // seconds, weight bytes
    double all_s = 0;
    for (const std::int32_t token : some_tokens(kTokens, session_.vocab()))
      for (const link::StepTime& time : times_of_round({&token, 1})) {
        const double s = time.end_s - time.begin_s;
        auto& [seconds, bytes] = kernels[kernel_of(program_, *time.step)];
        seconds += s;
        all_s += s;
        bytes += link::weight_bytes(program_, *time.step);
      }
    std::vector<std::pair<double, std::string>> order;
    for (const auto& [name, cost] : kernels) order.emplace_back(-cost.first, name);
    std::sort(order.begin(), order.end());
    for (const auto& [negative_s, name] : order) {
      const auto& [s, bytes] = kernels[name];
      const double gb_s = static_cast<double>(bytes) / s / 1e9;
      if (is_for_people()) std::printf("  %-48s %8.3f ms  %5.1f %%  %6.1f GB/s\n", name.c_str(), s / kTokens * 1e3, 100 * s / all_s, gb_s);
      else print(Value::Object{{"kernel", name}, {"ms", s / kTokens * 1e3}, {"share", s / all_s}, {"gb_s", gb_s}});
    }
  }

  // Each of the prompts, some decoded tokens, a round of each width.
  void timeline() {
    constexpr int kTokens = 4;
    Timeline timeline(program_);
    for (const int n : flags_.prompts) {
      if (!n) continue;
      fill(flags_.depth);
      const auto tokens = some_tokens(n, session_.vocab());
      timeline.add("prompt of " + std::to_string(n), times_of([&] { session_.prefill(tokens); }));
    }
    fill(std::max(1, flags_.depth));
    for (const std::int32_t token : some_tokens(kTokens, session_.vocab())) timeline.add("token", times_of_round({&token, 1}));
    for (const int width : flags_.widths)
      timeline.add("round of " + std::to_string(width), times_of_round(some_tokens(width, session_.vocab())));
    timeline.write(flags_.timeline);
  }

  // The session is as long afterwards as it was.
  std::vector<link::StepTime> times_of_round(std::span<const std::int32_t> tokens) {
    const std::int32_t length = session_.length();
    const auto times = times_of([&] { session_.forward(tokens); });
    session_.rollback(length);
    return times;
  }

  template <class Call>
  std::vector<link::StepTime> times_of(Call&& call) {
    std::vector<link::StepTime> times;
    session_.watch(&times);
    call();
    session_.watch(nullptr);
    return times;
  }

  void memory() {
    read_limit_.memory.reset();
    fill(session_.capacity());
    const link::MemoryPlan& plan = program_.plan;
    const std::int64_t anonymous = resident_bytes("RssAnon"), mapped = resident_bytes("RssFile");
    const std::int64_t huge = resident_bytes("FilePmdMapped", "/proc/self/smaps_rollup");
    const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count); };
    if (is_for_people()) {
      std::printf("load %.3f s; memory %.1f MB of %.1f MB planned, weights %.1f MB of %.1f MB mapped, %.0f %% in huge pages\n", load_s_,
                  static_cast<double>(anonymous) / 1e6, static_cast<double>(plan.anonymous_bytes()) / 1e6,
                  static_cast<double>(mapped) / 1e6, static_cast<double>(plan.weights_mapped_bytes) / 1e6,
                  100.0 * static_cast<double>(huge) / static_cast<double>(std::max<std::int64_t>(1, mapped)));
      return;
    }
    Value::Object line{{"load_s", load_s_},
                       {"context_tokens", plan.context_tokens},
                       {"kv", engine::kv_stats(program_)},
                       {"plan_anonymous_bytes", bytes(plan.anonymous_bytes())},
                       {"resident_anonymous_bytes", anonymous},
                       {"plan_weights_mapped_bytes", bytes(plan.weights_mapped_bytes)},
                       {"resident_file_bytes", mapped},
                       {"huge_file_bytes", huge}};
    add_machine(line, program_, flags_.model);
    print(line);
  }

  const BenchFlags flags_;
  const Clock::time_point start_;
  const link::Program program_;
  const std::unique_ptr<link::Executor> executor_;
  const double load_s_;
  decode::Session session_;
  link::ReadLimit read_limit_;
};

}  // namespace

std::vector<std::int32_t> some_tokens(int count, int vocab) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::int32_t>((i * 7919LL + 13) % vocab));
  return tokens;
}

std::string describe(const link::Program& program, const ModelFlags& flags) {
  std::string machine = cpu::processor_name();
  if (program.backend == &cpu::kBackend)
    machine += ", instructions " + flags.backend_flags.instructions.taken_by(program.numeric).text();
  return machine + "\n" + program.target.folder + ", graph " + std::string(program.graph->name) + ", " +
         std::to_string(program.plan.threads) + " threads, " + std::string(name_of(program.numeric)) + ", K/V " +
         std::string(program.plan.kv_format.name);
}

void add_machine(Value::Object& line, const link::Program& program, const ModelFlags& flags) {
  line.emplace_back("processor", cpu::processor_name());
  if (program.backend == &cpu::kBackend)
    line.emplace_back("instructions", flags.backend_flags.instructions.taken_by(program.numeric).json());
}

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure tokens per second, memory and load time");
  const auto flags = std::make_shared<BenchFlags>();
  flags->model.add_to(*command);
  flags->model.backend_flags.add_to(*command);
  add_numbers(*command, "-p,--prompt", flags->prompts, 0, INT32_MAX, "prompt lengths to measure, 0 for none", "64");
  add_numbers(*command, "-n,--generate", flags->generations, 0, INT32_MAX, "numbers of decoded tokens to measure, 0 for none", "32");
  add_number(*command, "-d,--depth", flags->depth, 0, INT32_MAX, "tokens in the cache before the measured ones; from 2048 on their K/V repeat", "0");
  add_numbers(*command, "--widths", flags->widths, 1, 8, "rows of rounds to compare with one row", "none");
  add_numbers(*command, "--sessions", flags->sessions, 1, 8, "sessions with a row each in one round, to compare with as many rows of one", "none");
  command->add_flag("--ops", flags->ops, "where the time of a decoded token goes, by kernel and shape");
  add_path(*command, "--timeline", flags->timeline, "FILE", "when each step of the prompts, of 4 tokens and of --widths ran: a file for Perfetto");
  auto* json = command->add_flag("--json", flags->json, "one JSON object per line");
  command->add_flag("--peer-lines", flags->peer_lines, "only the lines that other engines print too")->excludes(json);
  CLI::Option* drafts = flags->drafts.add_to(*command);
  for (const char* other : {"--prompt", "--generate", "--widths", "--sessions", "--ops", "--timeline", "--peer-lines"})
    drafts->excludes(command->get_option(other));
  CLI::Option* towers = command->add_flag("--towers", flags->towers, "time of a picture of 768 x 768 and of 30 s of sound, in place of texts");
  for (const char* other : {"--prompt", "--generate", "--depth", "--widths", "--sessions", "--ops", "--timeline", "--peer-lines"})
    towers->excludes(command->get_option(other));
  towers->excludes(drafts);
  command->callback([flags] {
    if (flags->towers) bench_towers(flags->model, flags->json);
    else if (flags->drafts.acceptances.empty()) Bench(*flags).run();
    else bench_drafts(flags->model, flags->drafts, flags->depth, flags->json);
  });
}

}  // namespace lapidary::cli
