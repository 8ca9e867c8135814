#include "serve/media_fields.hpp"

#include "serve/fetch.hpp"
#include "text/base64.hpp"

namespace lapidary::serve {
namespace {

using text::Value;
using Kind = text::Media::Kind;

constexpr std::size_t kMaxMedia = 32;
constexpr std::string_view kFetched = "https://HOST/... with a HOST of --allow-media-from";

Value add(MediaItem item, MediaItems& media) {
  if (media.items.size() == kMaxMedia) refuse(item.path, "expected at most 32 pictures and sounds, got another");
  const char* type = item.kind == Kind::image ? "image" : "audio";
  media.items.push_back(std::move(item));
  return Value::Object{{"type", type}};
}

std::int32_t read_detail(Fields& fields) {
  const auto detail = fields.one_of("detail", {"auto", "low", "high"});
  return !detail || *detail == "auto" ? 0 : *detail == "low" ? 70 : 1120;
}

MediaItem read_data(Kind kind, Fields& fields, std::string_view name) {
  auto bytes = text::from_base64(fields.need_text(name));
  if (!bytes) refuse(fields.path_of(name), "expected base 64, got other letters or another length");
  return {.kind = kind, .bytes = *std::move(bytes), .path = fields.path_of(name)};
}

// What it is said to be does not matter, what the bytes are does.
MediaItem read_data_url(const std::string& url, std::string path) {
  auto bytes = text::read_data_url(url);
  if (!bytes) refuse(path, "expected data:TYPE;base64, and base 64 behind it, got " + shown(url));
  return {.kind = Kind::image, .bytes = *std::move(bytes), .path = std::move(path)};
}

// To be fetched. `others`: what the field may have been, too.
MediaItem read_address(const std::string& url, std::string path, const Fetcher& fetcher, const std::string& others = "") {
  if (!fetcher.allows(url)) refuse(path, "expected " + others + std::string(kFetched) + ", got " + shown(url));
  return {.kind = Kind::image, .path = std::move(path), .url = url, .fetcher = &fetcher};
}

MediaItem read_url(Fields& fields, std::string_view name, const MediaItems& media) {
  const std::string& url = fields.need_text(name);
  const std::string path = fields.path_of(name);
  if (url.starts_with("data:")) return read_data_url(url, path);
  if (media.fetcher) return read_address(url, path, *media.fetcher, "data:TYPE;base64,... or ");
  refuse(path, "expected data:TYPE;base64,..., as addresses are never fetched, got " + shown(url));
}

}  // namespace

Value read_image_url(Fields& part, MediaItems& media) {
  Fields image(part.need("image_url", "an object"), part.path_of("image_url"), Absent::null_or_empty);
  MediaItem item = read_url(image, "url", media);
  item.image_tokens = read_detail(image);
  image.finish();
  return add(std::move(item), media);
}

Value read_input_audio(Fields& part, MediaItems& media) {
  Fields audio(part.need("input_audio", "an object"), part.path_of("input_audio"), Absent::null_or_empty);
  MediaItem item = read_data(Kind::audio, audio, "data");
  audio.any_text("format");
  audio.finish();
  return add(std::move(item), media);
}

Value read_input_image(Fields& part, MediaItems& media) {
  part.refused("file_id", "no files are kept");
  MediaItem item = read_url(part, "image_url", media);
  item.image_tokens = read_detail(part);
  return add(std::move(item), media);
}

Value read_image_block(Fields& block, MediaItems& media) {
  Fields source(block.need("source", "an object"), block.path_of("source"), Absent::null_or_empty);
  const std::string& type = source.need_text("type");
  if (media.fetcher && type == "url") {
    MediaItem item = read_address(source.need_text("url"), source.path_of("url"), *media.fetcher);
    source.finish();
    return add(std::move(item), media);
  }
  if (type != "base64")
    refuse(source.path_of("type"), std::string(media.fetcher ? "expected \"base64\" or \"url\", as no files are kept, got "
                                                             : "expected \"base64\", as addresses are never fetched and no files are kept, got ") +
                                       shown(type), kUnsupportedParameter);
  MediaItem item = read_data(Kind::image, source, "data");
  source.any_text("media_type");
  source.finish();
  return add(std::move(item), media);
}

}  // namespace lapidary::serve
