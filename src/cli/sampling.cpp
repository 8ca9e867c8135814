#include "cli/sampling.hpp"

#include <charconv>
#include <random>

#include "checkpoint/error.hpp"

namespace lapidary::cli {
namespace {

std::pair<std::int32_t, float> parse_bias(const std::string& text, std::int32_t vocab) {
  std::int32_t id = 0;
  float value = 0;
  const char* end = text.data() + text.size();
  const auto [equals, id_error] = std::from_chars(text.data(), end, id);
  if (id_error != std::errc{} || equals == end || *equals != '=' || id < 0 || id >= vocab)
    fail(ErrorKind::usage, "--logit-bias", "expected ID=VALUE with an id below " + std::to_string(vocab) + ", got '" + text + "'");
  const auto [rest, value_error] = std::from_chars(equals + 1, end, value);
  if (value_error != std::errc{} || rest != end || !(value >= -1e6f && value <= 1e6f))
    fail(ErrorKind::usage, "--logit-bias", "expected a number after ID=, got '" + text + "'");
  return {id, value};
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  command.add_option("--temperature", temperature, "0 = always the likeliest token")->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", top_k, "choose among this many, 0 = all")->check(CLI::NonNegativeNumber);
  command.add_option("--top-p", top_p, "choose among the likeliest with this much probability")->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", min_p, "drop tokens below this part of the likeliest")->check(CLI::Range(0.0, 1.0));
  command.add_option("--repetition-penalty", repetition, "1 = none")->check(CLI::Range(0.01, 100.0));
  command.add_option("--presence-penalty", presence, "0 = none")->check(CLI::Range(-100.0, 100.0));
  command.add_option("--frequency-penalty", frequency, "0 = none")->check(CLI::Range(-100.0, 100.0));
  command.add_option("--logit-bias", bias, "ID=VALUE, may be repeated")->allow_extra_args(false);
  command.add_option("--seed", seed, "the same seed gives the same text (default: a random one)");
}

ResolvedSampling::ResolvedSampling(const SamplingFlags& flags, const decode::GenerationDefaults& defaults, std::int32_t vocab)
    : suppressed(defaults.suppress_tokens) {
  settings.temperature = flags.temperature.value_or(defaults.temperature);
  settings.top_k = flags.top_k.value_or(defaults.top_k);
  settings.top_p = flags.top_p.value_or(defaults.top_p);
  settings.min_p = flags.min_p.value_or(defaults.min_p);
  settings.repetition = flags.repetition.value_or(defaults.repetition_penalty);
  settings.presence = flags.presence.value_or(0.0f);
  settings.frequency = flags.frequency.value_or(0.0f);
  settings.seed = flags.seed ? *flags.seed : std::random_device{}();
  for (const std::string& text : flags.bias) bias.push_back(parse_bias(text, vocab));
}

graph::Sampling ResolvedSampling::sampling() const {
  graph::Sampling complete = settings;
  complete.bias = bias;
  complete.suppressed = suppressed;
  return complete;
}

}  // namespace lapidary::cli
