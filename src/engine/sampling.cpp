#include "engine/sampling.hpp"

#include <random>
#include <string>

#include "checkpoint/error.hpp"

namespace lapidary::engine {
namespace {

void check(const char* name, float value, float least, float most) {
  if (!(value >= least && value <= most))
    fail(ErrorKind::usage, name, "expected " + std::to_string(least) + " to " + std::to_string(most) + ", got " + std::to_string(value));
}

}  // namespace

ResolvedSampling::ResolvedSampling(const SamplingOptions& options, const decode::GenerationDefaults& defaults, std::int32_t vocab)
    : bias(options.bias), suppressed(defaults.suppress_tokens) {
  settings.temperature = options.temperature.value_or(defaults.temperature);
  settings.top_k = options.top_k.value_or(defaults.top_k);
  settings.top_p = options.top_p.value_or(defaults.top_p);
  settings.min_p = options.min_p.value_or(defaults.min_p);
  settings.repetition = options.repetition.value_or(defaults.repetition_penalty);
  settings.presence = options.presence.value_or(0.0f);
  settings.frequency = options.frequency.value_or(0.0f);
  settings.seed = options.seed ? *options.seed : std::random_device{}();
  settings.stream = options.stream;
  check("temperature", settings.temperature, 0.0f, 100.0f);
  check("top-p", settings.top_p, 0.0f, 1.0f);
  check("min-p", settings.min_p, 0.0f, 1.0f);
  check("repetition penalty", settings.repetition, 0.01f, 100.0f);
  check("presence penalty", settings.presence, -100.0f, 100.0f);
  check("frequency penalty", settings.frequency, -100.0f, 100.0f);
  if (settings.top_k < 0) fail(ErrorKind::usage, "top-k", "expected at least 0, got " + std::to_string(settings.top_k));
  for (const auto& [id, value] : bias) {
    if (id < 0 || id >= vocab)
      fail(ErrorKind::usage, "logit bias", "id, expected 0 to " + std::to_string(vocab - 1) + ", got " + std::to_string(id));
    if (!(value >= -1e6f && value <= 1e6f))
      fail(ErrorKind::usage, "logit bias", "value, expected -1e6 to 1e6, got " + std::to_string(value));
  }
}

graph::Sampling ResolvedSampling::sampling() const {
  graph::Sampling complete = settings;
  complete.bias = bias;
  complete.suppressed = suppressed;
  return complete;
}

}  // namespace lapidary::engine
