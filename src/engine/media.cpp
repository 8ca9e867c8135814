#include "engine/media.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/sha256.hpp"
#include "media/sound.hpp"
#include "media/video.hpp"

namespace lapidary::engine {
namespace {

using graph::Sense;

const graph::Tower& tower_for(const graph::Graph& graph, Sense sense, std::string_view where) {
  if (const graph::Tower* tower = graph.tower(sense)) return *tower;
  fail(ErrorKind::unsupported, std::string(where),
       std::string("model, expected one that ") + (sense == Sense::vision ? "sees" : "hears") + ", got " + std::string(graph.name));
}

// The numbers tell pictures apart that have the same bytes in another shape.
std::string content_of(const Percept& percept) {
  const std::int32_t shape[] = {static_cast<std::int32_t>(percept.sense), percept.rows, percept.columns};
  const auto seen = std::as_bytes(std::span(percept.picture.rgb)), heard = std::as_bytes(std::span(percept.frames));
  const std::string all = sha256_hex(std::as_bytes(std::span(shape))) + sha256_hex(seen) + sha256_hex(heard);
  return sha256_hex(std::as_bytes(std::span(all)));
}

std::shared_ptr<const Percept> seen(const graph::Tower& tower, media::Picture picture) {
  Percept percept{.sense = Sense::vision, .rows = picture.size.height / tower.vision.patch, .columns = picture.size.width / tower.vision.patch,
                  .picture = std::move(picture)};
  percept.soft_tokens = tower.soft_tokens(percept.rows, percept.columns);
  percept.content = content_of(percept);
  return std::make_shared<const Percept>(std::move(percept));
}

std::shared_ptr<const Percept> heard(const graph::Tower& tower, std::vector<float> frames) {
  Percept percept{.sense = Sense::audio, .rows = static_cast<std::int32_t>(frames.size() / static_cast<std::size_t>(tower.input_width)),
                  .columns = 1, .frames = std::move(frames)};
  percept.soft_tokens = tower.soft_tokens(percept.rows, percept.columns);
  percept.content = content_of(percept);
  return std::make_shared<const Percept>(std::move(percept));
}

// A file of a checkpoint that may not be there.
std::optional<std::string> read_if_there(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found) return std::nullopt;
  return read_text_file(path);
}

bool is_budget(std::int32_t budget) { return std::ranges::find(media::kBudgets, budget) != media::kBudgets.end(); }

// The first that one of these keys has, there or in an object of them.
std::optional<std::int32_t> find_budget(const JsonObject& object) {
  for (const char* key : {"max_soft_tokens", "image_seq_length", "vision_soft_tokens_per_image", "default_output_length", "num_soft_tokens"})
    if (const auto budget = object.optional_integer(key, 1, INT32_MAX); budget && is_budget(*budget)) return budget;
  for (const char* key : {"image_processor", "vision_config"})
    if (const auto inner = object.optional_object(key))
      if (const auto budget = find_budget(*inner)) return budget;
  return std::nullopt;
}

}  // namespace

Medium Medium::image(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where, std::int32_t budget) {
  tower_for(graph, Sense::vision, where);  // before any work
  return image(graph, media::decode_picture(file, where), where, budget);
}

Medium Medium::image(const graph::Graph& graph, const media::Picture& picture, std::string_view where, std::int32_t budget) {
  const graph::Tower& tower = tower_for(graph, Sense::vision, where);
  check_image_budget(budget, where);
  return {.kind = text::Media::Kind::image, .percepts = {seen(tower, media::resized(picture, media::fitted(picture.size, budget)))}};
}

Medium Medium::audio(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where) {
  tower_for(graph, Sense::audio, where);
  return audio(graph, media::decode_sound(file, where).samples, where);
}

Medium Medium::audio(const graph::Graph& graph, std::span<const float> samples, std::string_view where) {
  const graph::Tower& tower = tower_for(graph, Sense::audio, where);
  if (samples.empty()) fail(ErrorKind::bad_value, std::string(where), "sound, expected at least one sample, got none");
  return {.kind = text::Media::Kind::audio,
          .percepts = {heard(tower, tower.audio.layer_count ? media::spectra(samples, where) : media::sample_rows(samples))}};
}

Medium Medium::video(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where) {
  const graph::Tower& tower = tower_for(graph, Sense::vision, where);
  Medium medium{.kind = text::Media::Kind::video};
  for (media::Frame& frame : media::decode_video(file, where)) {
    medium.percepts.push_back(seen(tower, std::move(frame.picture)));
    medium.frame_seconds.push_back(frame.seconds);
  }
  return medium;
}

text::Media Medium::announced() const {
  return {.kind = kind, .soft_tokens = percepts.front()->soft_tokens, .frame_seconds = frame_seconds};
}

Percepts percepts_of(std::span<const Medium> media) {
  Percepts all;
  for (const Medium& medium : media) all.insert(all.end(), medium.percepts.begin(), medium.percepts.end());
  return all;
}

std::vector<float> perceive(const graph::Graph& graph, link::Executor& executor, const Percept& percept, std::vector<float>* tower) {
  const graph::Tower& with = *graph.tower(percept.sense);
  const auto tokens = static_cast<std::size_t>(percept.soft_tokens);
  const media::Patches patches = percept.sense == Sense::vision ? media::patches(percept.picture, with.vision.patch) : media::Patches{};
  std::vector<float> soft(tokens * static_cast<std::size_t>(with.soft_width));
  if (tower) tower->resize(tokens * static_cast<std::size_t>(with.tower_width));
  executor.perceive({percept.sense, percept.rows, percept.columns, percept.sense == Sense::vision ? patches.values : percept.frames}, soft,
                    tower ? std::span<float>(*tower) : std::span<float>());
  return soft;
}

SoftIds SoftIds::of(const text::Tokenizer& tokenizer) {
  return {tokenizer.special("<|image|>").value_or(-1), tokenizer.special("<|audio|>").value_or(-1), tokenizer.special("<|video|>").value_or(-1)};
}

SoftIds SoftIds::of_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string(), json = read_text_file(path);
  const JsonDocument config(json, path);
  const auto id = [&](const char* key) { return config.root().optional_integer(key, 0, INT32_MAX).value_or(-1); };
  return {id("image_token_id"), id("audio_token_id"), id("video_token_id")};
}

std::vector<SoftRun> soft_runs(std::span<const std::int32_t> ids, const SoftIds& soft_ids) {
  std::vector<SoftRun> runs;
  for (std::size_t i = 0; i < ids.size();) {
    const std::size_t begin = i;
    while (i < ids.size() && ids[i] == ids[begin]) ++i;
    const bool is_heard = ids[begin] == soft_ids.audio;
    if (is_heard || ids[begin] == soft_ids.image || ids[begin] == soft_ids.video)
      runs.push_back({static_cast<std::int32_t>(begin), static_cast<std::int32_t>(i), is_heard ? Sense::audio : Sense::vision});
  }
  return runs;
}

std::vector<decode::SoftBlock> blocks_of(std::span<const SoftRun> runs, const Percepts& percepts) {
  if (runs.size() != percepts.size())
    fail(ErrorKind::bad_value, "media",
         "images, frames and sounds, expected " + std::to_string(runs.size()) + ", one for each place, got " + std::to_string(percepts.size()));
  std::vector<decode::SoftBlock> blocks;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const SoftRun& run = runs[i];
    const Percept& percept = *percepts[i];
    const bool is_image = run.sense == Sense::vision;
    if (run.sense != percept.sense)
      fail(ErrorKind::bad_value, "media", "number " + std::to_string(i) + ", expected " + (is_image ? "an image, got a sound" : "a sound, got an image"));
    if (run.end - run.begin != percept.soft_tokens)
      fail(ErrorKind::bad_value, "media",
           "number " + std::to_string(i) + ", expected a place for each of its " + std::to_string(percept.soft_tokens) + " soft tokens, got " +
               std::to_string(run.end - run.begin));
    blocks.push_back({run.begin, run.end, is_image, percept.content});
  }
  return blocks;
}

void check_sizes(const link::Program& program, std::span<const decode::SoftBlock> blocks) {
  for (const decode::SoftBlock& block : blocks) {
    const std::int32_t tokens = block.end - block.begin;
    const auto check = [&](std::int32_t most, const char* why) {
      if (tokens > most)
        fail(ErrorKind::usage, "image",
             "expected at most " + std::to_string(most) + " soft tokens, " + why + ", got " + std::to_string(tokens) +
                 "; a smaller budget, or one that is known when the model is loaded");
    };
    if (decode::sees_all(block, program.graph->shape)) check(program.plan.chunk_rows, "as many as a chunk has rows");
    if (block.is_image) check(program.plan.image_tokens, "as many as its tower has room for");
  }
}

std::int32_t read_image_budget(const std::string& folder) {
  for (const char* name : {"processor_config.json", "preprocessor_config.json", "config.json"}) {
    const std::string path = (std::filesystem::path(folder) / name).string();
    const auto json = read_if_there(path);
    if (!json) continue;
    const JsonDocument document(*json, path);
    if (const auto budget = find_budget(document.root())) return *budget;
  }
  return media::kPictureBudget;
}

void check_image_budget(std::int32_t budget, std::string_view where) {
  if (!is_budget(budget))
    fail(ErrorKind::usage, std::string(where), "soft tokens of an image, expected 70, 140, 280, 560 or 1120, got " + std::to_string(budget));
}

}  // namespace lapidary::engine
