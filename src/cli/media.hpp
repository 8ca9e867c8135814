// Pictures, sounds and videos that a user hands in: with flags, at marks in a text, or in the parts of messages.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/media.hpp"
#include "engine/model.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

using MediaKind = text::Media::Kind;
inline constexpr MediaKind kMediaKinds[] = {MediaKind::image, MediaKind::audio, MediaKind::video};

struct MediaFile {
  MediaKind kind{};
  std::string name{};  // as the user has it, for errors
  std::string bytes{};
};
using MediaFiles = std::vector<std::shared_ptr<const MediaFile>>;

// Reads every file once.
class MediaReader {
 public:
  // `source`: a path, or an address that is a file or holds the data. `name`: for errors.
  std::shared_ptr<const MediaFile> read(MediaKind kind, const std::string& source, const std::string& name);

 private:
  std::map<std::pair<MediaKind, std::string>, std::shared_ptr<const MediaFile>> read_;
};

struct MediaFlags {
  std::array<std::vector<std::string>, 3> files;  // by kind

  void add_to(CLI::App& command, std::span<const MediaKind> kinds);
  const std::vector<std::string>& of(MediaKind kind) const { return files[static_cast<std::size_t>(kind)]; }
  bool any() const { return !files[0].empty() || !files[1].empty() || !files[2].empty(); }
};
void add_image_tokens(CLI::App& command, std::int32_t& image_tokens);  // --image-tokens; 0 = the model's own
std::string flag_of(MediaKind kind);  // "--image"
std::string mark_of(MediaKind kind);  // "<image>": where in a text the file of a flag goes

// Messages as text::render() takes them, and for each of their parts that is a picture, a sound or a video its file.
struct MediaMessages {
  text::Value messages{};
  MediaFiles media{};
};
// `messages`: with parts {"type":"image","image":SOURCE}, {"type":"image_url","image_url":{"url":SOURCE}}, {"type":"input_audio",
// "input_audio":{"data":BASE64}} and so on, as OpenAI and Hugging Face have them. Files of flags go to the marks in texts and to the parts that
// have no source or, where there are none, before the last message of the user.
MediaMessages read_media(const text::Value& messages, const MediaFlags& flags, MediaReader& reader);

// The same messages, where paths no longer depend on the folder that they were relative to.
text::Value with_absolute_paths(const text::Value& messages, const std::string& folder);

// A part with a source.
text::Value media_part(MediaKind kind, const std::string& source);

engine::Medium medium_of(const MediaFile& file, const graph::Graph& graph, std::int32_t image_tokens);
std::vector<engine::Medium> media_of(const MediaFiles& files, const engine::Model& model);

}  // namespace lapidary::cli
