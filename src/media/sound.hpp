// Sounds: from the bytes of a file to what an audio tower takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lapidary::media {

constexpr std::int32_t kSampleRate = 16000;  // samples per second of every sound here

struct Sound {
  std::vector<float> samples{};  // one channel, about -1 to 1
  bool cut = false;              // the file goes on, beyond the limit
};

struct SoundLimits {
  std::size_t bytes = std::size_t{64} << 20;  // of the file
  std::int32_t seconds = 600;                 // what comes later is not read
};

// A file of any format in the table of formats.hpp, told by its first bytes: channels averaged, resampled where its rate is another.
// Fails with `where` for what is not a sound or has no samples.
Sound decode_sound(std::span<const std::byte> file, std::string_view where, const SoundLimits& limits = {});

// What the conformer takes: the logarithms of 128 mel bands every 10 ms. [spectrum_count(samples), kMelBands]
constexpr std::int32_t kMelBands = 128;
constexpr std::int64_t kMostSpectrumSamples = 30 * std::int64_t{kSampleRate};  // the rest is not heard

constexpr std::int64_t spectrum_count(std::int64_t samples) {
  const std::int64_t heard = samples < kMostSpectrumSamples ? samples : kMostSpectrumSamples;
  return heard <= 160 ? 0 : (heard - 161) / 160 + 1;
}

// Fails with `where` where there is not one.
std::vector<float> spectra(std::span<const float> samples, std::string_view where);

// What is taken where there is no tower: the samples themselves, 40 ms at a time, zeros after the last. [⌈samples / 640⌉, 640]
constexpr std::int32_t kSamplesPerToken = 640;
std::vector<float> sample_rows(std::span<const float> samples);

}  // namespace lapidary::media
