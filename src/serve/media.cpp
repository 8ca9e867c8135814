#include "serve/media.hpp"

#include <algorithm>
#include <iterator>

#include "checkpoint/error.hpp"
#include "media/find_format.hpp"
#include "serve/fetch.hpp"
#include "serve/fields.hpp"
#include "serve/ticket.hpp"

namespace lapidary::serve {
namespace {

using engine::Medium;

std::span<const std::byte> bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

void check_tower(const graph::Graph& graph, graph::Sense sense, const MediaItem& item) {
  if (graph.tower(sense)) return;
  fail(ErrorKind::unsupported, item.path,
       std::string(sense == graph::Sense::vision ? "picture, expected a model that sees, got " : "sound, expected a model that hears, got ") +
           std::string(graph.name));
}

// Strangers reach fewer decoders than who runs the program: those of formats that every client can write.
template <class Decoder>
void check_format(std::span<const media::Format<Decoder>> formats, std::initializer_list<std::string_view> names, const std::string& file,
                  const std::string& path, std::size_t most_bytes) {
  std::vector<media::Format<Decoder>> taken;
  std::ranges::copy_if(formats, std::back_inserter(taken), [&](const auto& format) { return std::ranges::find(names, format.name) != names.end(); });
  media::decoder_of(std::span<const media::Format<Decoder>>(taken), bytes_of(file), path, most_bytes);
}

// What the pictures of a request may still take.
struct Left {
  std::int64_t pixels;
  double fetch_s;
};

std::string fetched(const MediaItem& item, const MediaLimits& limits, const std::atomic<bool>* cancelled, Left& left) {
  const auto begin = Clock::now();
  std::string file = item.fetcher->fetch(item.url, item.path, {.bytes = limits.bytes, .seconds = left.fetch_s, .cancelled = cancelled});
  left.fetch_s -= seconds_since(begin);
  return file;
}

Medium image_of(const graph::Graph& graph, std::int32_t image_tokens, const MediaItem& item, const std::string& file, const MediaLimits& limits,
                Left& left) {
  check_format(media::picture_formats(), {"PNG", "JPEG", "WebP"}, file, item.path, limits.bytes);
  const media::Picture picture = media::decode_picture(bytes_of(file), item.path, {.bytes = limits.bytes, .pixels = left.pixels, .side = limits.side});
  left.pixels -= picture.size.pixels();
  return Medium::image(graph, picture, item.path, item.image_tokens ? item.image_tokens : image_tokens);
}

Medium audio_of(const graph::Graph& graph, const MediaItem& item, const MediaLimits& limits) {
  check_format(media::sound_formats(), {"WAV"}, item.bytes, item.path, limits.bytes);
  const media::Sound sound = media::decode_sound(bytes_of(item.bytes), item.path, {.bytes = limits.bytes, .seconds = limits.seconds});
  if (sound.cut) fail(ErrorKind::too_large, item.path, "sound, expected at most " + std::to_string(limits.seconds) + " s, got more");
  return Medium::audio(graph, sound.samples, item.path);
}

}  // namespace

std::vector<Medium> media_of(const graph::Graph& graph, std::int32_t image_tokens, std::span<const MediaItem> items, const MediaLimits& limits,
                             const std::atomic<bool>* cancelled) {
  std::vector<Medium> media;
  Left left{.pixels = limits.pixels, .fetch_s = limits.fetch_s};
  for (const MediaItem& item : items) try {
    const bool is_image = item.kind == text::Media::Kind::image;
    check_tower(graph, is_image ? graph::Sense::vision : graph::Sense::audio, item);
    if (!is_image) media.push_back(audio_of(graph, item, limits));
    else if (!item.fetcher) media.push_back(image_of(graph, image_tokens, item, item.bytes, limits, left));
    else media.push_back(image_of(graph, image_tokens, item, fetched(item, limits, cancelled, left), limits, left));
  } catch (const Error& error) {
    throw Refusal{.status = 400, .code = error.kind == ErrorKind::unsupported ? kUnsupportedParameter : kInvalidValue, .message = error.message(),
                  .param = item.path};
  }
  return media;
}

}  // namespace lapidary::serve
