#include "cli/sampling.hpp"

#include <charconv>

#include "checkpoint/error.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  std::int32_t id = 0;
  const char* end = text.data() + text.size();
  const auto [equals, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc{} || equals == end || *equals != '=')
    fail(ErrorKind::usage, "--logit-bias", "expected ID=VALUE, got '" + text + "'");
  const auto value = text::read_number({equals + 1, end});
  if (!value) fail(ErrorKind::usage, "--logit-bias", "expected a number after ID=, got '" + text + "'");
  return {id, static_cast<float>(*value)};
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  command.add_option("--temperature", given.temperature, "0 = always the likeliest token")->check(CLI::Range(0.0, 100.0));
  command.add_option("--top-k", given.top_k, "choose among this many, 0 = all")->check(CLI::NonNegativeNumber);
  command.add_option("--top-p", given.top_p, "choose among the likeliest with this much probability")->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", given.min_p, "drop tokens below this part of the likeliest")->check(CLI::Range(0.0, 1.0));
  command.add_option("--repetition-penalty", given.repetition, "1 = none")->check(CLI::Range(0.01, 100.0));
  command.add_option("--presence-penalty", given.presence, "0 = none")->check(CLI::Range(-100.0, 100.0));
  command.add_option("--frequency-penalty", given.frequency, "0 = none")->check(CLI::Range(-100.0, 100.0));
  command.add_option("--logit-bias", bias, "ID=VALUE, may be repeated")->allow_extra_args(false);
  command.add_option("--seed", given.seed, "the same seed gives the same text (default: a random one)");
}

engine::SamplingOptions SamplingFlags::options() const {
  engine::SamplingOptions options = given;
  for (const std::string& text : bias) options.bias.push_back(parse_bias(text));
  return options;
}

}  // namespace lapidary::cli
