// Any bytes as a file of a sound: an Error, or samples that spectra can be made of.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "checkpoint/error.hpp"
#include "media/sound.hpp"
#include "support/sndfile_leak.hpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

bool finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lapidary::media;
  try {
    const Sound sound = decode_sound(std::as_bytes(std::span(data, size)), "fuzz", {.bytes = 1 << 20, .seconds = 1});
    check(!sound.samples.empty() && sound.samples.size() <= kSampleRate && finite(sound.samples));
    check(sample_rows(sound.samples).size() % kSamplesPerToken == 0);
    const std::vector<float> mel = spectra(sound.samples, "fuzz");
    check(mel.size() == static_cast<std::size_t>(spectrum_count(static_cast<std::int64_t>(sound.samples.size()))) * kMelBands && finite(mel));
  } catch (const lapidary::Error& error) {
    check(error.what.find(", expected ") != std::string::npos);
  }
  return 0;
}
