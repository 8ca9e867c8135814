#include "serve/media_fields.hpp"

#include "text/base64.hpp"

namespace lapidary::serve {
namespace {

using text::Value;
using Kind = text::Media::Kind;

constexpr std::size_t kMaxItems = 32;

Value add(MediaItem item, MediaItems& items) {
  if (items.size() == kMaxItems) refuse(item.path, "expected at most 32 pictures and sounds, got another");
  const char* type = item.kind == Kind::image ? "image" : "audio";
  items.push_back(std::move(item));
  return Value::Object{{"type", type}};
}

std::int32_t read_detail(Fields& fields) {
  const auto detail = fields.one_of("detail", {"auto", "low", "high"});
  return !detail || *detail == "auto" ? 0 : *detail == "low" ? 70 : 1120;
}

std::string read_data(Fields& fields, std::string_view name) {
  auto bytes = text::from_base64(fields.need_text(name));
  if (!bytes) refuse(fields.path_of(name), "expected base 64, got other letters or another length");
  return *std::move(bytes);
}

// What it is said to be does not matter, what the bytes are does.
std::string read_url(Fields& fields, std::string_view name) {
  const std::string& url = fields.need_text(name);
  if (!url.starts_with("data:")) refuse(fields.path_of(name), "expected data:TYPE;base64,..., as addresses are never fetched, got " + shown(url));
  auto bytes = text::read_data_url(url);
  if (!bytes) refuse(fields.path_of(name), "expected data:TYPE;base64, and base 64 behind it, got " + shown(url));
  return *std::move(bytes);
}

}  // namespace

Value read_image_url(Fields& part, MediaItems& items) {
  Fields image(part.need("image_url", "an object"), part.path_of("image_url"), Absent::null_or_empty);
  MediaItem item{.kind = Kind::image, .bytes = read_url(image, "url"), .image_tokens = read_detail(image), .path = image.path_of("url")};
  image.finish();
  return add(std::move(item), items);
}

Value read_input_audio(Fields& part, MediaItems& items) {
  Fields audio(part.need("input_audio", "an object"), part.path_of("input_audio"), Absent::null_or_empty);
  MediaItem item{.kind = Kind::audio, .bytes = read_data(audio, "data"), .path = audio.path_of("data")};
  audio.any_text("format");
  audio.finish();
  return add(std::move(item), items);
}

Value read_input_image(Fields& part, MediaItems& items) {
  part.refused("file_id", "no files are kept");
  return add({.kind = Kind::image, .bytes = read_url(part, "image_url"), .image_tokens = read_detail(part), .path = part.path_of("image_url")}, items);
}

Value read_image_block(Fields& block, MediaItems& items) {
  Fields source(block.need("source", "an object"), block.path_of("source"), Absent::null_or_empty);
  if (const std::string& type = source.need_text("type"); type != "base64")
    refuse(source.path_of("type"), "expected \"base64\", as addresses are never fetched and no files are kept, got " + shown(type), kUnsupportedParameter);
  MediaItem item{.kind = Kind::image, .bytes = read_data(source, "data"), .path = source.path_of("data")};
  source.any_text("media_type");
  source.finish();
  return add(std::move(item), items);
}

}  // namespace lapidary::serve
