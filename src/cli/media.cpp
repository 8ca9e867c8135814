#include "cli/media.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>

#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "media/sound.hpp"
#include "media/video.hpp"
#include "text/base64.hpp"
#include "text/chat_fields.hpp"

namespace lapidary::cli {
namespace {

using text::Value;
using Kind = MediaKind;

constexpr std::array<std::string_view, 3> kNames = {"image", "audio", "video"};  // by kind

std::string name_of(Kind kind) { return std::string(kNames[static_cast<std::size_t>(kind)]); }

// Parts that are media. What says which one is under the name of the type.
std::optional<Kind> kind_of(const Value& part) {
  constexpr std::pair<std::string_view, Kind> kTypes[] = {{"image", Kind::image},       {"image_url", Kind::image}, {"audio", Kind::audio},
                                                          {"input_audio", Kind::audio}, {"video", Kind::video},     {"video_url", Kind::video}};
  const Value* type = part.find("type");
  const auto found = std::ranges::find_if(kTypes, [&](const auto& known) { return type && *type == Value(known.first); });
  return found == std::end(kTypes) ? std::nullopt : std::optional(found->second);
}

Value bare_part(Kind kind) { return Value::Object{{"type", name_of(kind)}}; }

// A path, an address, or data in base 64.
struct Source {
  std::string text;
  bool is_data = false;
};
std::optional<Source> source_of(const Value& part, const std::string& path) {
  const std::string& type = *part.find("type")->string();
  const Value* given = part.find(type);
  if (!given || given->is_null()) return std::nullopt;
  if (given->string()) return Source{*given->string()};
  if (const Value* url = given->find("url"); url && url->string()) return Source{*url->string()};
  if (const Value* data = given->find("data"); data && data->string()) return Source{*data->string(), true};
  fail(ErrorKind::wrong_type, "messages", path + "." + type + ", expected a file, an object with url or one with data, got another");
}

// Every part of every message by `change(part, path)`, which gives the parts in its place. A text is a part.
Value with_parts(const Value& messages, const std::function<Value::Array(const Value&, const std::string&)>& change) {
  if (!messages.array()) return messages;  // whoever renders refuses it
  Value::Array all = *messages.array();
  for (std::size_t m = 0; m < all.size(); ++m) {
    if (!all[m].object()) continue;
    Value::Object fields = *all[m].object();
    for (auto& [name, value] : fields) {
      if (name != "content") continue;
      const std::string path = text::item_path("messages", m) + ".content";
      if (value.string()) {
        Value::Array parts = change(Value::Object{{"type", "text"}, {"text", value}}, path);
        if (parts.size() != 1 || kind_of(parts[0])) value = std::move(parts);
      } else if (value.array()) {
        Value::Array parts;
        for (std::size_t p = 0; p < value.array()->size(); ++p) {
          Value::Array changed = change((*value.array())[p], text::item_path(path, p));
          std::ranges::move(changed, std::back_inserter(parts));
        }
        value = std::move(parts);
      }
    }
    all[m] = std::move(fields);
  }
  return all;
}

// A text with marks as parts, where the marks are parts that have no source.
Value::Array split_at_marks(const Value& part, const MediaFlags& flags) {
  const Value* words = part.find("text");
  if (!words || !words->string()) return {part};
  Value::Array parts;
  const std::string& text = *words->string();
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (end > begin) parts.push_back(Value::Object{{"type", "text"}, {"text", text.substr(begin, end - begin)}});
  };
  std::size_t from = 0;
  for (;;) {
    std::size_t at = text.npos;
    Kind kind{};
    for (const Kind candidate : kMediaKinds)
      if (const std::size_t found = text.find(mark_of(candidate), from); !flags.of(candidate).empty() && found < at) {
        at = found;
        kind = candidate;
      }
    if (at == text.npos) break;
    add(from, at);
    parts.push_back(bare_part(kind));
    from = at + mark_of(kind).size();
  }
  if (parts.empty()) return {part};
  add(from, text.size());
  return parts;
}

// Files that no mark and no part asks for, before what the user said last.
Value with_unasked(const Value& messages, const Value::Array& unasked, const std::string& flag) {
  if (unasked.empty()) return messages;
  Value::Array all = messages.array() ? *messages.array() : Value::Array();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const Value& message) {
    const Value *role = message.find("role"), *content = message.find("content");
    return role && *role == Value("user") && content && (content->string() || content->array());
  });
  if (last == all.rend()) fail(ErrorKind::usage, flag, "expected a message of the user to go with, got none");
  Value::Object fields = *last->object();
  for (auto& [name, value] : fields) {
    if (name != "content") continue;
    Value::Array parts = unasked;
    if (value.string()) parts.push_back(Value::Object{{"type", "text"}, {"text", value}});
    else parts.insert(parts.end(), value.array()->begin(), value.array()->end());
    value = std::move(parts);
  }
  *last = std::move(fields);
  return all;
}

// "%20" is a space.
std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned char byte = 0;
    const char* end = text.data() + std::min(at + 3, text.size());
    const bool is_escape = text[at] == '%' && std::from_chars(text.data() + at + 1, end, byte, 16).ptr == text.data() + at + 3;
    plain += is_escape ? static_cast<char>(byte) : text[at];
    at += is_escape ? 2 : 0;
  }
  return plain;
}

bool is_address(std::string_view source) { return source.starts_with("http:") || source.starts_with("https:"); }
bool is_data(std::string_view source) { return source.starts_with("data:"); }

std::string path_of(std::string_view source) {
  for (const std::string_view scheme : {"file://localhost/", "file:///"})
    if (source.starts_with(scheme)) return without_escapes(source.substr(scheme.size() - 1));
  return std::string(source);
}

std::string read_bytes(Kind kind, const std::string& source, const std::string& name) {
  if (is_address(source))
    fail(ErrorKind::unsupported, name, "expected a file, as nothing is fetched from the network, got " + source.substr(0, 80));
  if (is_data(source)) {
    auto bytes = text::read_data_url(source);
    if (!bytes) fail(ErrorKind::bad_value, name, "address, expected data:TYPE;base64, and base 64 behind it, got another");
    return *std::move(bytes);
  }
  const std::size_t most_bytes = kind == Kind::image   ? media::PictureLimits{}.bytes
                                 : kind == Kind::audio ? media::SoundLimits{}.bytes
                                                       : media::VideoLimits{}.bytes;
  try {
    return read_input(path_of(source), {.bytes = most_bytes});
  } catch (const Error& error) {
    fail(error.kind, name, error.what);
  }
}

}  // namespace

std::string flag_of(Kind kind) { return "--" + name_of(kind); }
std::string mark_of(Kind kind) { return "<" + name_of(kind) + ">"; }

std::shared_ptr<const MediaFile> MediaReader::read(Kind kind, const std::string& source, const std::string& name) {
  std::shared_ptr<const MediaFile>& file = read_[{kind, source}];
  if (!file) file = std::make_shared<const MediaFile>(MediaFile{kind, name, read_bytes(kind, source, name)});
  return file;
}

void MediaFlags::add_to(CLI::App& command, std::span<const Kind> kinds) {
  constexpr std::array kWhat = {"picture to look at: PNG, JPEG, WebP or GIF", "sound to listen to: WAV, FLAC, OGG or MP3", "video to watch"};
  for (const Kind kind : kinds) {
    const auto index = static_cast<std::size_t>(kind);
    command.add_option(flag_of(kind), files[index], kWhat[index] + (", at " + mark_of(kind) + " in the text or before it; may be repeated"))
        ->type_name("FILE")->allow_extra_args(false)->take_all();
  }
}

void add_image_tokens(CLI::App& command, std::int32_t& image_tokens) {
  std::vector<std::string> budgets;
  for (const std::int32_t budget : media::kBudgets) budgets.push_back(std::to_string(budget));
  add_choice(command, "--image-tokens", budgets, [&image_tokens](const std::string& text) { image_tokens = std::stoi(text); },
             "the most that a picture takes of the context (default: what the model was made for)");
}

MediaMessages read_media(const Value& messages, const MediaFlags& flags, MediaReader& reader) {
  std::array<std::size_t, 3> asked{};  // parts without a source, by kind
  Value marked = with_parts(messages, [&](const Value& part, const std::string& path) {
    Value::Array parts = flags.any() ? split_at_marks(part, flags) : Value::Array{part};
    for (const Value& one : parts)
      if (const auto kind = kind_of(one); kind && !source_of(one, path)) ++asked[static_cast<std::size_t>(*kind)];
    return parts;
  });
  Value::Array unasked;
  std::string flag;
  for (const Kind kind : kMediaKinds) {
    const std::size_t given = flags.of(kind).size(), places = asked[static_cast<std::size_t>(kind)];
    if (given > 0 && places > 0 && given != places)
      fail(ErrorKind::usage, flag_of(kind), "expected " + std::to_string(places) + ", one for each " + mark_of(kind) + ", got " + std::to_string(given));
    if (places > 0) continue;
    unasked.insert(unasked.end(), given, bare_part(kind));
    if (given > 0 && flag.empty()) flag = flag_of(kind);
  }
  marked = with_unasked(marked, unasked, flag);

  MediaMessages all;
  std::array<std::size_t, 3> used{};  // files of flags
  all.messages = with_parts(marked, [&](const Value& part, const std::string& path) -> Value::Array {
    const auto kind = kind_of(part);
    if (!kind) return {part};
    std::size_t& next = used[static_cast<std::size_t>(*kind)];
    if (const auto source = source_of(part, path); source && source->is_data)
      all.media.push_back(reader.read(*kind, "data:;base64," + source->text, path));
    else if (source)
      all.media.push_back(reader.read(*kind, source->text, is_data(source->text) ? path : source->text));
    else if (next < flags.of(*kind).size()) {
      const std::string& file = flags.of(*kind)[next++];
      all.media.push_back(reader.read(*kind, file, flag_of(*kind) + " " + file));
    }
    return {bare_part(*kind)};
  });
  return all;
}

Value with_absolute_paths(const Value& messages, const std::string& folder) {
  return with_parts(messages, [&](const Value& part, const std::string& path) -> Value::Array {
    const auto kind = kind_of(part);
    const auto source = kind ? source_of(part, path) : std::nullopt;
    if (!source || source->is_data || is_data(source->text) || is_address(source->text)) return {part};
    return {media_part(*kind, std::filesystem::absolute(std::filesystem::path(folder) / path_of(source->text)).lexically_normal().string())};
  });
}

Value media_part(Kind kind, const std::string& source) { return Value::Object{{"type", name_of(kind)}, {name_of(kind), source}}; }

engine::Medium medium_of(const MediaFile& file, const graph::Graph& graph, std::int32_t image_tokens) {
  const auto bytes = std::as_bytes(std::span(file.bytes));
  switch (file.kind) {
    case Kind::image: return engine::Medium::image(graph, bytes, file.name, image_tokens);
    case Kind::audio: return engine::Medium::audio(graph, bytes, file.name);
    case Kind::video: break;
  }
  return engine::Medium::video(graph, bytes, file.name);
}

std::vector<engine::Medium> media_of(const MediaFiles& files, const engine::Model& model) {
  std::vector<engine::Medium> media;
  for (const auto& file : files) media.push_back(medium_of(*file, *model.program.graph, model.image_tokens));
  return media;
}

}  // namespace lapidary::cli
