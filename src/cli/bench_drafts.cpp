// lapidary bench --acceptance: one text decoded plainly, with every fixed number of drafts, and with as many as the policy
// chooses. The drafts are scripted: they cost nothing, or what a drafter takes whose drafts they replace. All ways take turns: what
// else the machine does hits them alike.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <random>

#include "cli/backend.hpp"
#include "cli/bench.hpp"
#include "cli/flags.hpp"
#include "decode/generate.hpp"
#include "decode/scripted_drafts.hpp"
#include "engine/stats.hpp"

namespace lapidary::cli {
namespace {

using decode::kMaxDrafts;
using engine::DraftKind;
using text::Value;
using Tokens = std::vector<std::int32_t>;

constexpr int kWays = kMaxDrafts + 2;  // plain, 1 to 7 drafts, automatic; each has a session of its own
constexpr std::size_t kTurnTokens = 50, kWarmUpTokens = 16;
constexpr std::uint64_t kSeed = 1;

// One way to decode the text, and how long it took so far.
class Way {
 public:
  Way(const link::Program& program, link::Executor& executor, int slot, const Tokens& prompt, std::size_t text_tokens,
      decode::Speculation speculation)
      : session_(program, executor, slot), speculation_(std::move(speculation)),
        generation_(session_, prompt,
                    {.max_tokens = static_cast<std::int32_t>(text_tokens), .speculation = &speculation_}) {
    text_.reserve(text_tokens);
    while (generation_.in_prompt()) generation_.turn();
  }

  void advance(std::size_t tokens) {
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; i < tokens; ++i)
      if (const auto token = generation_.next()) text_.push_back(*token);
    seconds_ += seconds_since(begin);
  }

  const Tokens& text() const { return text_; }
  const decode::Speculation& speculation() const { return speculation_; }
  const decode::SpeculationStats& stats() const { return generation_.stats(); }
  double tok_s() const { return static_cast<double>(text_.size()) / seconds_; }

  // Means of its rounds; of `k` drafts, though the last round may have had fewer.
  double draft_ms(int k, bool block) const {
    std::int64_t runs = block ? stats().drafted[0] : 0;
    for (const std::int64_t drafted : stats().drafted) runs += block ? 0 : drafted;
    return runs ? 1e3 * stats().draft_s / static_cast<double>(runs) * (block ? 1 : k) : 0;
  }
  double verify_ms() const { return 1e3 * stats().verify_s / static_cast<double>(std::max<std::int64_t>(1, stats().rounds)); }

 private:
  decode::Session session_;
  decode::Speculation speculation_;
  decode::Generation generation_;
  Tokens text_;
  double seconds_ = 0;
};

class DraftBench {
 public:
  DraftBench(const ModelFlags& model, const DraftFlags& draft, std::size_t text_tokens, int depth, bool json)
      : model_(model), kind_(draft.options.kind), program_(model.load(draft)), executor_(program_.backend->make(program_)), json_(json),
        prompt_(some_tokens(depth, program_.graph->shape.vocab)) {
    Way plain(program_, *executor_, 0, prompt_, text_tokens, decode::Speculation());
    plain.advance(text_tokens);
    text_ = plain.text();
    if (has_drafter()) {  // its weights are mapped when they are used first
      Way drafted(program_, *executor_, 0, prompt_, text_tokens, speculation_of_drafter(kMaxDrafts));
      drafted.advance(std::min(kWarmUpTokens, text_tokens));
    }
    if (json_) return;
    std::printf("%s; %zu tokens after %d\n", describe(program_, model_).c_str(), text_.size(), depth);
    std::printf("acceptance  plain tok/s  auto tok/s  tokens per round  of plain  best fixed k  of best fixed\n");
  }

  void run(double acceptance) {
    const decode::ScriptedDrafts script(text_, prompt_.size(), program_.graph->shape.vocab, acceptance, kSeed);
    decode::ScriptedExecutor scripted(*executor_, script);
    std::deque<Way> ways;
    for (int k = 0; k <= kMaxDrafts; ++k) add(ways, script, scripted, k);
    add(ways, script, scripted, std::nullopt);

    std::vector<Way*> order;
    for (Way& way : ways) order.push_back(&way);
    for (std::size_t done = 0; done < text_.size(); done += kTurnTokens) {
      std::ranges::shuffle(order, random_);  // wide rounds leave the caches to the next one in a worse state
      for (Way* way : order) way->advance(std::min(kTurnTokens, text_.size() - done));
    }
    for (const Way& way : ways) check(way, acceptance);
    report(ways, acceptance);
  }

 private:
  bool has_drafter() const { return kind_ != DraftKind::lookup; }

  decode::Speculation speculation_of_drafter(std::optional<int> k) const { return engine::make_speculation({.kind = kind_, .tokens = k}, program_); }

  void add(std::deque<Way>& ways, const decode::ScriptedDrafts& script, decode::ScriptedExecutor& scripted, std::optional<int> k) {
    const auto speculation = [&] {
      if (k == 0) return decode::Speculation();
      if (has_drafter()) return speculation_of_drafter(k);
      std::vector<decode::Speculation::SourceKind> sources;
      sources.push_back({[&script] { return std::make_unique<decode::ScriptedDrafts>(script); }, {}});
      return decode::Speculation(std::move(sources), k);
    };
    link::Executor& executor = has_drafter() ? scripted : *executor_;
    ways.emplace_back(program_, executor, static_cast<int>(ways.size()), prompt_, text_.size(), speculation());
  }

  void check(const Way& way, double acceptance) const {
    if (way.text() != text_)
      fail(ErrorKind::not_exact, "bench",
           "text with drafts accepted at " + std::to_string(acceptance) + ", expected that of plain decoding, got another");
  }

  void report(const std::deque<Way>& ways, double acceptance) const {
    const double plain_tok_s = ways.front().tok_s(), auto_tok_s = ways.back().tok_s();
    const auto best = std::ranges::max_element(ways.begin(), ways.end() - 1, {}, &Way::tok_s);
    const auto best_k = static_cast<int>(best - ways.begin());
    const decode::SpeculationStats& stats = ways.back().stats();
    if (!json_) {
      std::printf("%10.2f  %11.1f  %10.1f  %16.2f  %8.3f  %12d  %13.3f\n", acceptance, plain_tok_s, auto_tok_s,
                  stats.tokens_per_round(), auto_tok_s / plain_tok_s, best_k, auto_tok_s / best->tok_s());
      if (has_drafter()) print_costs(ways);
      std::fflush(stdout);
      return;
    }
    Value::Array fixed_tok_s;
    for (int k = 0; k <= kMaxDrafts; ++k) fixed_tok_s.emplace_back(ways[static_cast<std::size_t>(k)].tok_s());
    Value::Object line{{"test", "drafts"},
                       {"acceptance", acceptance},
                       {"tokens", static_cast<std::int64_t>(text_.size())},
                       {"fixed_tok_s", std::move(fixed_tok_s)},
                       {"auto_tok_s", auto_tok_s},
                       {"tokens_per_round", stats.tokens_per_round()},
                       {"of_plain", auto_tok_s / plain_tok_s},
                       {"best_fixed_k", best_k},
                       {"of_best_fixed", auto_tok_s / best->tok_s()},
                       {"draft", engine::draft_stats(ways.back().speculation(), stats)}};
    if (has_drafter()) {
      Value::Array draft_ms, verify_ms;
      for (int k = 0; k <= kMaxDrafts; ++k) {
        draft_ms.emplace_back(ways[static_cast<std::size_t>(k)].draft_ms(k, is_block()));
        verify_ms.emplace_back(ways[static_cast<std::size_t>(k)].verify_ms());
      }
      line.emplace_back("fixed_draft_ms", std::move(draft_ms));
      line.emplace_back("fixed_verify_ms", std::move(verify_ms));
    }
    add_machine(line, program_, model_);
    std::cout << text::to_json(line) << std::endl;
  }

  bool is_block() const { return kind_ == DraftKind::dflash; }

  void print_costs(const std::deque<Way>& ways) const {
    const double plain_ms = ways.front().verify_ms();
    std::printf("         k  drafting ms  of a plain round  verifying ms    tok/s  of plain\n");
    for (int k = 1; k <= kMaxDrafts; ++k) {
      const Way& way = ways[static_cast<std::size_t>(k)];
      const double draft_ms = way.draft_ms(k, is_block());
      std::printf("%10d  %11.2f  %16.3f  %12.2f  %7.2f  %8.3f\n", k, draft_ms, draft_ms / plain_ms, way.verify_ms(), way.tok_s(),
                  way.tok_s() / ways.front().tok_s());
    }
  }

  const ModelFlags model_;
  const DraftKind kind_;
  const link::Program program_;
  const std::unique_ptr<link::Executor> executor_;
  const bool json_;
  const Tokens prompt_;
  Tokens text_;  // what follows the prompt
  std::mt19937_64 random_{kSeed};
};

}  // namespace

CLI::Option* DraftBenchFlags::add_to(CLI::App& command) {
  CLI::Option* option =
      add_numbers(command, "--acceptance", acceptances, 0.0, 1.0, "scripted drafts instead, right with these probabilities: automatic "
                                                                  "against plain decoding and every fixed number of drafts", "none");
  add_number(command, "--text-tokens", text_tokens, 1, INT32_MAX, "length of the text that is drafted", "2000")->needs(option);
  draft.add_drafters_to(command);
  command.get_option("--draft-model")->needs(option);
  command.get_option("--draft-kind")
      ->description("whose drafts they are: mtp and dflash draft too, in vain, and what that costs is printed; those of lookup cost nothing "
                    "(default: lookup)")
      ->needs(option);
  return option;
}

void bench_drafts(ModelFlags model, const DraftBenchFlags& flags, int depth, bool json) {
  const DraftKind kind = flags.draft.options.kind;
  if (kind == DraftKind::automatic || kind == DraftKind::none) fail(ErrorKind::usage, "--draft-kind", "expected mtp, dflash or lookup, got another");
  const int prompt_tokens = std::max(1, depth);
  model.options.sessions = kWays;
  if (!model.options.context_tokens) model.options.context_tokens = prompt_tokens + flags.text_tokens;
  DraftBench bench(model, flags.draft, static_cast<std::size_t>(flags.text_tokens), prompt_tokens, json);
  for (const double acceptance : flags.acceptances) bench.run(acceptance);
}

}  // namespace lapidary::cli
