#include "media/sound.hpp"

#include <algorithm>

#include "media/find_format.hpp"

namespace lapidary::media {

Sound decode_sound(std::span<const std::byte> file, std::string_view where, const SoundLimits& limits) {
  return decoder_of(sound_formats(), file, where, limits.bytes)(file, where, limits);
}

std::vector<float> sample_rows(std::span<const float> samples) {
  constexpr std::size_t kRow = kSamplesPerToken;
  std::vector<float> rows((samples.size() + kRow - 1) / kRow * kRow);
  std::ranges::copy(samples, rows.begin());
  return rows;
}

}  // namespace lapidary::media
