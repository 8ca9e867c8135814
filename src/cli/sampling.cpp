#include "cli/sampling.hpp"

#include <charconv>
#include <cstdint>
#include <limits>

#include "checkpoint/error.hpp"
#include "cli/flags.hpp"
#include "text/value.hpp"

namespace lapidary::cli {
namespace {

constexpr float kNever = -1e6f;  // leaves no probability, and is what the engine takes at the most

std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  std::int32_t id = 0;
  const char* end = text.data() + text.size();
  const auto [equals, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc{} || equals == end || *equals != '=')
    fail(ErrorKind::usage, "--logit-bias", "expected ID=VALUE, got '" + text + "'");
  const std::string_view number(equals + 1, end);
  if (number == "-inf") return {id, kNever};
  const auto value = text::read_number(number);
  if (!value) fail(ErrorKind::usage, "--logit-bias", "expected a number or -inf after ID=, got '" + text + "'");
  return {id, static_cast<float>(*value)};
}

}  // namespace

void SamplingFlags::add_to(CLI::App& command) {
  const std::string models = "the checkpoint's";
  add_number(command, "--temperature,--temp", given.temperature, 0.0f, 100.0f, "0: always the likeliest token", models);
  add_number(command, "--top-k", given.top_k, 0, INT32_MAX, "choose among this many, 0: among all", models);
  add_number(command, "--top-p", given.top_p, 0.0f, 1.0f, "choose among the likeliest with this much probability", models);
  add_number(command, "--min-p", given.min_p, 0.0f, 1.0f, "drop tokens below this part of the likeliest", models);
  add_number(command, "--repetition-penalty,--repeat-penalty", given.repetition, 0.01f, 100.0f,
             "divides the logits of tokens that were there, 1: none", models);
  add_number(command, "--presence-penalty", given.presence, -100.0f, 100.0f, "taken from the logits of tokens that were there", "0");
  add_number(command, "--frequency-penalty", given.frequency, -100.0f, 100.0f, "the same, times how often", "0");
  command.add_option("--logit-bias", bias, "added to the logit of a token, -inf: never that token; may be repeated")
      ->type_name("ID=X")->allow_extra_args(false)->take_all();
  add_number(command, "-s,--seed", given.seed, std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max(),
             "the same seed gives the same text", "a random one");
}

engine::SamplingOptions SamplingFlags::options() const {
  engine::SamplingOptions options = given;
  for (const std::string& text : bias) options.bias.push_back(parse_bias(text));
  return options;
}

}  // namespace lapidary::cli
