#include "serve/media.hpp"

#include <algorithm>
#include <iterator>

#include "checkpoint/error.hpp"
#include "media/find_format.hpp"
#include "serve/fields.hpp"

namespace lapidary::serve {
namespace {

using engine::Medium;

std::span<const std::byte> bytes_of(const MediaItem& item) { return std::as_bytes(std::span(item.bytes)); }

void check_tower(const graph::Graph& graph, graph::Sense sense, const MediaItem& item) {
  if (graph.tower(sense)) return;
  fail(ErrorKind::unsupported, item.path,
       std::string(sense == graph::Sense::vision ? "picture, expected a model that sees, got " : "sound, expected a model that hears, got ") +
           std::string(graph.name));
}

// Strangers reach fewer decoders than who runs the program: those of formats that every client can write.
template <class Decoder>
void check_format(std::span<const media::Format<Decoder>> formats, std::initializer_list<std::string_view> names, const MediaItem& item,
                  std::size_t most_bytes) {
  std::vector<media::Format<Decoder>> taken;
  std::ranges::copy_if(formats, std::back_inserter(taken), [&](const auto& format) { return std::ranges::find(names, format.name) != names.end(); });
  media::decoder_of(std::span<const media::Format<Decoder>>(taken), bytes_of(item), item.path, most_bytes);
}

// `pixels`: of all pictures that are left.
Medium image_of(const graph::Graph& graph, std::int32_t image_tokens, const MediaItem& item, const MediaLimits& limits, std::int64_t& pixels) {
  check_tower(graph, graph::Sense::vision, item);
  check_format(media::picture_formats(), {"PNG", "JPEG", "WebP"}, item, limits.bytes);
  const media::Picture picture = media::decode_picture(bytes_of(item), item.path, {.bytes = limits.bytes, .pixels = pixels, .side = limits.side});
  pixels -= picture.size.pixels();
  return Medium::image(graph, picture, item.path, item.image_tokens ? item.image_tokens : image_tokens);
}

Medium audio_of(const graph::Graph& graph, const MediaItem& item, const MediaLimits& limits) {
  check_tower(graph, graph::Sense::audio, item);
  check_format(media::sound_formats(), {"WAV"}, item, limits.bytes);
  const media::Sound sound = media::decode_sound(bytes_of(item), item.path, {.bytes = limits.bytes, .seconds = limits.seconds});
  if (sound.cut) fail(ErrorKind::too_large, item.path, "sound, expected at most " + std::to_string(limits.seconds) + " s, got more");
  return Medium::audio(graph, sound.samples, item.path);
}

}  // namespace

std::vector<Medium> media_of(const graph::Graph& graph, std::int32_t image_tokens, std::span<const MediaItem> items, const MediaLimits& limits) {
  std::vector<Medium> media;
  std::int64_t pixels = limits.pixels;
  for (const MediaItem& item : items) try {
    media.push_back(item.kind == text::Media::Kind::image ? image_of(graph, image_tokens, item, limits, pixels) : audio_of(graph, item, limits));
  } catch (const Error& error) {
    throw Refusal{.status = 400, .code = error.kind == ErrorKind::unsupported ? kUnsupportedParameter : kInvalidValue, .message = error.message(),
                  .param = item.path};
  }
  return media;
}

}  // namespace lapidary::serve
