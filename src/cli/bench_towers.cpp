// lapidary bench --towers: how long a picture and a sound take to become soft tokens, against what the machine can multiply.
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "cli/bench.hpp"

namespace lapidary::cli {
namespace {

using text::Value;

constexpr int kTimes = 5;
constexpr std::int32_t kPictureSide = 768;    // pixels
constexpr std::int32_t kPictureTokens = 280;  // a budget that it is within
constexpr std::int32_t kSoundSpectra = 2999;  // of 30 s
constexpr std::int32_t kSoundFrames = 750;    // likewise, of 640 samples each

// Numbers between 0 and 1 that repeat nothing.
std::vector<float> some_values(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7919 % 65521) / 65521.0f;
  return values;
}

void measure(link::Executor& executor, const graph::Graph& graph, const graph::Tower& tower, double limit, bool json) {
  const bool sees = tower.sense == graph::Sense::vision;
  const std::int32_t side = sees ? kPictureSide / tower.vision.patch : 1;
  const std::int32_t rows = sees ? side : tower.audio.layer_count ? kSoundSpectra : kSoundFrames;
  const std::vector<float> values = some_values(static_cast<std::size_t>(rows) * side * tower.input_width);
  const std::int32_t tokens = tower.soft_tokens(rows, side);
  std::vector<float> soft(static_cast<std::size_t>(tokens) * tower.soft_width);
  std::vector<double> times_s;
  for (int i = 0; i <= kTimes; ++i) {
    const Clock::time_point begin = Clock::now();
    executor.perceive({tower.sense, rows, side, values}, soft);
    if (i > 0) times_s.push_back(seconds_since(begin));  // the first one finds its weights on disk
  }
  std::ranges::sort(times_s);
  const double s = times_s[kTimes / 2], products = static_cast<double>(link::products_of(graph, tower, rows, side));
  const std::string name = sees ? "picture of 768 x 768" : "sound of 30 s";
  if (json) {
    std::cout << text::to_json(Value::Object{{"test", sees ? "picture" : "sound"}, {"rows", std::int64_t{rows} * side}, {"soft_tokens", tokens},
                                             {"ms", s * 1e3}, {"products", products}, {"products_s", products / s},
                                             {"of_product_limit", limit > 0 ? products / s / limit : 0.0}})
              << std::endl;
    return;
  }
  std::printf("%-20s  %9.1f ms, %d soft tokens; %.1f billion products, %.1f a second", name.c_str(), s * 1e3, tokens, products / 1e9,
              products / s / 1e9);
  if (limit > 0) std::printf(", %.0f %% of what can be multiplied", 100 * products / s / limit);
  std::printf("\n");
}

}  // namespace

void bench_towers(ModelFlags model, bool json) {
  model.image_tokens = kPictureTokens;
  const link::Program program = model.load();
  const std::unique_ptr<link::Executor> executor = program.backend->make(program);
  if (program.graph->towers.empty())
    fail(ErrorKind::unsupported, "--towers", "model, expected one that sees or hears, got " + std::string(program.graph->name));
  const double limit = executor->measure_product_limit();
  if (!json) std::printf("%s; multiplies %.1f billion numbers a second\n", describe(program, model).c_str(), limit / 1e9);
  for (const graph::Tower& tower : program.graph->towers) measure(*executor, *program.graph, tower, limit, json);
  if (!json) return;
  Value::Object line{{"product_limit_s", limit}, {"threads", program.plan.threads}};
  add_machine(line, program, model);
  std::cout << text::to_json(line) << std::endl;
}

}  // namespace lapidary::cli
