// Any bytes as generation_config.json: an Error, or values that sampling may rely on.
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "decode/generation_config.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto defaults =
        lapidary::decode::parse_generation_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    check(defaults.temperature >= 0 && defaults.temperature <= 100 && defaults.top_k >= 0);
    check(defaults.top_p >= 0 && defaults.top_p <= 1 && defaults.min_p >= 0 && defaults.min_p <= 1);
    check(defaults.repetition_penalty > 0 && defaults.repetition_penalty <= 100);
    for (const auto* ids : {&defaults.suppress_tokens, &defaults.eos_tokens})
      for (std::size_t i = 0; i < ids->size(); ++i) check((*ids)[i] >= 0 && (i == 0 || (*ids)[i - 1] < (*ids)[i]));
  } catch (const lapidary::Error&) {
  }
  return 0;
}
