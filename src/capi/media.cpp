// Pictures, sounds and videos from C: files, or what the caller has decoded. Every size is the caller's word and is checked.
#include "capi/boundary.hpp"

#include <cmath>

#include "media/sound.hpp"

namespace lapidary::capi {
namespace {

using engine::Medium;

media::Picture picture_of(const lapidary_medium& medium, std::span<const std::byte> data, const std::string& where) {
  const media::PictureLimits limits;
  const media::Size size{medium.width, medium.height};
  if (size.width < 1 || size.height < 1 || size.width > limits.side || size.height > limits.side || size.pixels() > limits.pixels)
    fail(ErrorKind::usage, where,
         "width and height, expected 1 to " + std::to_string(limits.side) + " and at most " + std::to_string(limits.pixels) + " pixels, got " +
             std::to_string(size.width) + " x " + std::to_string(size.height));
  if (data.size() != static_cast<std::size_t>(size.pixels()) * 3)
    fail(ErrorKind::usage, where, "data, expected 3 bytes for each of " + std::to_string(size.pixels()) + " pixels, got " + std::to_string(data.size()));
  media::Picture picture{.size = size, .rgb = std::vector<std::uint8_t>(data.size())};
  std::memcpy(picture.rgb.data(), data.data(), data.size());
  return picture;
}

std::vector<float> samples_of(std::span<const std::byte> data, const std::string& where) {
  const std::size_t most = static_cast<std::size_t>(media::SoundLimits{}.seconds) * media::kSampleRate;
  if (data.empty() || data.size() % sizeof(float) != 0 || data.size() / sizeof(float) > most)
    fail(ErrorKind::usage, where, "data, expected 1 to " + std::to_string(most) + " whole samples of 4 bytes, got " + std::to_string(data.size()) + " bytes");
  std::vector<float> samples(data.size() / sizeof(float));
  std::memcpy(samples.data(), data.data(), data.size());
  if (!std::ranges::all_of(samples, [](float sample) { return std::isfinite(sample); }))
    fail(ErrorKind::usage, where, "data, expected samples that are numbers, got others");
  return samples;
}

Medium medium_of(const engine::Model& model, const lapidary_medium& medium, const std::string& where) {
  const graph::Graph& graph = *model.program.graph;
  const auto data = std::as_bytes(required_list(static_cast<const char*>(medium.data), medium.data_bytes, where.c_str()));
  const std::int32_t image_tokens = medium.image_tokens ? medium.image_tokens : model.image_tokens;
  switch (medium.kind) {
    case LAPIDARY_IMAGE_FILE: return Medium::image(graph, data, where, image_tokens);
    case LAPIDARY_AUDIO_FILE: return Medium::audio(graph, data, where);
    case LAPIDARY_VIDEO_FILE: return Medium::video(graph, data, where);
    case LAPIDARY_PIXELS: return Medium::image(graph, picture_of(medium, data, where), where, image_tokens);
    case LAPIDARY_SAMPLES: return Medium::audio(graph, samples_of(data, where), where);
    default: fail(ErrorKind::usage, where, "kind, expected LAPIDARY_IMAGE_FILE to LAPIDARY_SAMPLES, got " + std::to_string(medium.kind));
  }
}

}  // namespace

std::vector<Medium> media_of(const engine::Model& model, std::span<const lapidary_medium* const> given) {
  std::vector<Medium> media;
  for (const lapidary_medium* medium : given) {
    const std::string where = "media[" + std::to_string(media.size()) + "]";
    if (!medium) fail(ErrorKind::usage, where, "expected one, got NULL");
    media.push_back(medium_of(model, read_sized(medium, where.c_str()), where));
  }
  return media;
}

}  // namespace lapidary::capi
