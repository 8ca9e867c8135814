// lapidary metal-check: does this machine's GPU run the kernels as they are defined? Leaves a receipt to send.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "checkpoint/whole_file.hpp"
#include "cli/backend.hpp"
#include "cli/bench.hpp"
#include "cli/metal_check.hpp"
#include "cpu/backend.hpp"
#include "decode/exactness.hpp"
#include "metal/backend.hpp"
#include "metal/check/check.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

using metal::CheckResult;
using text::Value;

// The model that comes with lapidary, on the GPU and, to compare with, on the processor.
class Pebble {
 public:
  explicit Pebble(const std::string& folder)
      : gpu_program_(load(folder, metal::kBackend)), cpu_program_(load(folder, cpu::kBackend)),
        gpu_executor_(gpu_program_.backend->make(gpu_program_)), cpu_executor_(cpu_program_.backend->make(cpu_program_)),
        gpu_(gpu_program_, *gpu_executor_), cpu_(cpu_program_, *cpu_executor_) {}

  // A prompt, then rounds.
  CheckResult against_cpu() {
    CheckResult result;
    result.name = "pebble, logits as on the CPU";
    double largest = 0, difference = 0;
    const auto compare = [&](int outputs) {
      for (int i = 0; i < outputs; ++i)
        for (std::size_t t = 0; t < gpu_.logits(i).size(); ++t) {
          const double expected = cpu_.logits(i)[t], error = std::abs(gpu_.logits(i)[t] - expected);
          largest = std::max(largest, std::abs(expected));
          difference = std::isnan(error) ? INFINITY : std::max(difference, error);
        }
    };
    for (decode::Session* session : {&gpu_, &cpu_}) session->prefill(some_tokens(kPrompt, gpu_.vocab()));
    compare(1);
    for (const int width : {1, 3, gpu_.widest_round()}) {
      for (decode::Session* session : {&gpu_, &cpu_}) session->forward(some_tokens(width, gpu_.vocab()));
      compare(width);
    }
    result.error = difference / (kAllowed * largest);
    if (!(result.error <= 1)) result.problem = "far from what the CPU computes";
    return result;
  }

  // Numbers of chance as a picture.
  CheckResult picture_against_cpu() {
    CheckResult result;
    result.name = "pebble, a picture as on the CPU";
    const graph::Tower& tower = *gpu_program_.graph->tower(graph::Sense::vision);
    const std::int32_t side = 4 * tower.vision.pool, tokens = tower.soft_tokens(side, side);
    std::vector<float> values(static_cast<std::size_t>(side) * side * tower.input_width), soft[2];
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 65521) / 65521.0f;
    for (std::size_t i = 0; i < 2; ++i) {
      soft[i].resize(static_cast<std::size_t>(tokens) * tower.soft_width);
      (i == 0 ? gpu_executor_ : cpu_executor_)->perceive({graph::Sense::vision, side, side, values}, soft[i]);
    }
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < soft[0].size(); ++i) {
      const double error = std::abs(double{soft[0][i]} - soft[1][i]);
      largest = std::max(largest, std::abs(double{soft[1][i]}));
      difference = std::isnan(error) ? INFINITY : std::max(difference, error);
    }
    result.error = difference / (kAllowed * largest);
    if (!(result.error <= 1)) result.problem = "far from what the CPU computes";
    return result;
  }

  CheckResult rows_alone_and_together() {
    CheckResult result;
    result.name = "pebble, rows alone and together";
    const decode::Exactness exactness = decode::check_exactness(gpu_, kForced);
    if (exactness.difference) result.problem = describe(*exactness.difference) + " has other bits than alone";
    return result;
  }

  Value speed() {
    gpu_.rollback(0);
    const auto tokens = some_tokens(kPrompt, gpu_.vocab());
    const Clock::time_point prompt = Clock::now();
    gpu_.prefill(tokens);
    gpu_.next();  // waits for the device
    const double prompt_s = seconds_since(prompt);

    const Clock::time_point begin = Clock::now();
    int count = 0;
    while (count < kMaxDecoded && seconds_since(begin) < kPatience_s) {
      gpu_.forward(std::span(tokens).subspan(static_cast<std::size_t>(count++ % kPrompt), 1));
      gpu_.next();
    }
    return Value::Object{{"prompt_tokens_s", kPrompt / prompt_s}, {"decoded_tokens_s", count / seconds_since(begin)}};
  }

 private:
  static constexpr int kPrompt = 24, kForced = 10, kMaxDecoded = 256;
  static constexpr double kPatience_s = 1.0;
  static constexpr double kAllowed = 2e-4;  // of the largest logit or number: rounding, through all layers

  static link::Program load(const std::string& folder, const link::Backend& backend) {
    ModelFlags flags;
    flags.checkpoint = folder;
    flags.options.backend = &backend;
    flags.options.context_tokens = 512;
    return flags.load();
  }

  const link::Program gpu_program_, cpu_program_;
  const std::unique_ptr<link::Executor> gpu_executor_, cpu_executor_;
  decode::Session gpu_, cpu_;
};

class MetalCheck {
 public:
  void run(const std::string& receipt_path, bool kernels_only) {
    std::printf("%s\n", gpu_.name().c_str());
    metal::check_kernels(gpu_, [this](const CheckResult& result) { take(result); });
    write_receipt(receipt_path, kernels_only ? Value{} : check_pebble());
    std::printf("%d passed, %d failed\n", passed_, failed_);
    if (failed_)
      fail(ErrorKind::not_exact, "metal-check", "expected all to pass, got " + std::to_string(failed_) + " that failed");
  }

 private:
  // Returns its speed; nothing where it is not installed.
  Value check_pebble() {
    const auto folder = find_pebble();
    if (!folder) return {};
    Pebble pebble(*folder);
    take(pebble.against_cpu());
    take(pebble.picture_against_cpu());
    take(pebble.rows_alone_and_together());
    return pebble.speed();
  }

  void take(const CheckResult& result) {
    const bool ok = result.problem.empty();
    ++(ok ? passed_ : failed_);
    std::printf("%-6s  %-44s  error %-8.2g", ok ? "ok" : "FAILED", result.name.c_str(), result.error);
    if (result.microseconds > 0) std::printf("  %8.1f us", result.microseconds);
    std::printf("%s%s\n", ok ? "" : "  ", result.problem.c_str());
    std::fflush(stdout);
    Value::Object line{{"name", result.name}, {"ok", ok}, {"error", result.error}, {"microseconds", result.microseconds}};
    if (!ok) line.emplace_back("problem", result.problem);
    lines_.push_back(std::move(line));
  }

  void write_receipt(const std::string& path, const Value& speed) const {
    utsname system{};
    uname(&system);
    const std::int64_t memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    const Value receipt = Value::Object{
        {"lapidary", LAPIDARY_VERSION},
        {"device", gpu_.name()},
        {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
        {"memory_bytes", memory_bytes},
        {"device_memory_bytes", static_cast<std::int64_t>(gpu_.device()->recommendedMaxWorkingSetSize())},
        {"passed", passed_},
        {"failed", failed_},
        {"pebble", speed},
        {"checks", lines_}};
    write_whole_file(path, [&](std::ostream& file) { file << text::to_json(receipt) << "\n"; });
    std::printf("receipt in %s\n", path.c_str());
  }

  metal::Gpu gpu_;
  int passed_ = 0, failed_ = 0;
  Value::Array lines_;
};

}  // namespace

void add_metal_check(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("metal-check", "Check on this machine that the GPU runs every kernel as it is defined");
  const auto receipt = std::make_shared<std::string>("metal-check.json");
  command->add_option("--out", *receipt, "where to write the receipt (default: metal-check.json)");
  const auto kernels_only = std::make_shared<bool>(false);
  command->add_flag("--kernels", *kernels_only, "the kernels alone, without pebble");
  command->callback([receipt, kernels_only] { MetalCheck().run(*receipt, *kernels_only); });
}

}  // namespace lapidary::cli
