// Stage 1: read the description of a model, validate it, and compute every constant that follows from it.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include <simdjson.h>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/pair.hpp"
#include "numeric/bf16.hpp"
#include "stages.hpp"

namespace lapidary::codegen {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t kDefaultChunk = 256;
constexpr std::int32_t kLargestImageBlock = 512;  // a chunk never splits an image block

float rounded(double value) { return numeric::from_bf16(numeric::to_bf16(static_cast<float>(value))); }

std::vector<float> rope_frequencies(const graph::Rope& rope, std::int32_t head_dim) {
  std::vector<float> values(head_dim / 2, 0.0f);
  const auto rotating = static_cast<std::size_t>(rope.partial * head_dim / 2);
  for (std::size_t i = 0; i < rotating; ++i)
    values[i] = static_cast<float>(std::pow(rope.theta, -2.0 * static_cast<double>(i) / head_dim) / rope.factor);
  return values;
}

void add_frequencies(Model& model, const graph::Rope& rope, std::int32_t head_dim) {
  if (model.frequencies_of(rope, head_dim) == graph::kNone)
    model.frequencies.push_back({rope, head_dim, rope_frequencies(rope, head_dim)});
}

void add_frequencies(Model& model, const graph::Shape& shape) {
  for (const graph::LayerShape& layer : shape.each_layer())
    add_frequencies(model, shape.rope[static_cast<int>(layer.kind)], layer.head_dim);
}

std::vector<float> grid_frequencies(const graph::VisionShape& vision) {
  std::vector<float> values;
  const int half = vision.head_dim / 2;  // of a head turns by the column, the other by the row
  for (int i = 0; i < half / 2; ++i) values.push_back(static_cast<float>(std::pow(vision.rope_theta, -2.0 * i / half)));
  return values;
}

std::vector<float> distance_frequencies(const graph::AudioShape& audio) {
  constexpr double kLongest = 10000.0;
  std::vector<float> values;
  const int count = audio.hidden / 2;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(std::exp(-i * std::log(kLongest) / std::max(count - 1, 1))));
  return values;
}

void derive(Model& model) {
  const graph::Shape& shape = model.shape;
  model.embedding_scale = rounded(std::sqrt(shape.hidden));
  model.ple_table_scale = rounded(std::sqrt(shape.ple_width));
  model.inverse_root_hidden = static_cast<float>(1.0 / std::sqrt(shape.hidden));
  add_frequencies(model, shape);
  if (model.assistant) add_frequencies(model, model.assistant->text);
  if (model.dflash) add_frequencies(model, {.theta = model.dflash->rope_theta}, model.dflash->head_dim);
  if (model.vision) model.grid_frequencies = grid_frequencies(*model.vision);
  if (model.audio) model.distance_frequencies = distance_frequencies(*model.audio);
}

std::int32_t parameter(simdjson::dom::object description, const char* key, std::int32_t fallback, std::int32_t most,
                       const std::string& path) {
  simdjson::dom::element element;
  if (description[key].get(element)) return fallback;
  std::int64_t value = 0;
  if (element.get(value)) fail(ErrorKind::wrong_type, path, std::string(key) + ", expected an integer");
  if (value < 1 || value > most)
    fail(ErrorKind::bad_value, path,
         std::string(key) + ", expected 1 to " + std::to_string(most) + ", got " + std::to_string(value));
  return static_cast<std::int32_t>(value);
}

void add_drafter(Model& model, std::string_view json, const std::string& where) {
  const Config config = parse_config(json, where);
  if (!config.assistant && !config.dflash)
    fail(ErrorKind::unsupported, where, "model_type, expected a drafter, got " + config.model_type);
  if (config.assistant ? model.assistant.has_value() : model.dflash.has_value())
    fail(ErrorKind::unsupported, where, "expected one drafter of a kind, got two");
  if (config.assistant) check_pair(model.shape, *config.assistant, where);
  if (config.dflash) check_pair(model.shape, *config.dflash, where);
  if (config.assistant) model.assistant = config.assistant;
  if (config.dflash) model.dflash = config.dflash;
}

std::string config_text(const std::string& path) {
  return read_text_file(fs::is_directory(path) ? path + "/config.json" : path);
}

// A name for a shape that came without one: the folder it lies in.
std::string name_from(const std::string& path) {
  const fs::path absolute = fs::absolute(path).lexically_normal();
  if (fs::is_directory(absolute)) return absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename();
  return absolute.stem() == "config" ? absolute.parent_path().filename() : absolute.stem();
}

}  // namespace

std::int16_t Model::frequencies_of(const graph::Rope& rope, std::int32_t head_dim) const {
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    if (frequencies[i].rope == rope && frequencies[i].head_dim == head_dim) return static_cast<std::int16_t>(i);
  return graph::kNone;
}

std::int16_t Model::frequencies_of(const graph::Shape& shape, const graph::LayerShape& layer) const {
  return frequencies_of(shape.rope[static_cast<int>(layer.kind)], layer.head_dim);
}

std::vector<std::span<const float>> Model::constants() const {
  std::vector<std::span<const float>> all;
  for (const Frequencies& one : frequencies) all.push_back(one.values);
  for (const std::vector<float>* one : {&grid_frequencies, &distance_frequencies})
    if (!one->empty()) all.push_back(*one);
  return all;
}

Model read_model(const std::string& path, const std::vector<std::string>& drafters) {
  const std::string text = config_text(path);
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  simdjson::dom::object description;
  if (parser.parse(text).get(root) || root.get(description)) fail(ErrorKind::not_json, path, "expected a JSON object");

  Model model;
  std::string config_json = text;
  simdjson::dom::element part;
  if (!description["config"].get(part)) config_json = simdjson::minify(part);
  const Config config = parse_config(config_json, path);
  if (config.assistant || config.dflash) fail(ErrorKind::unsupported, path, "expected a target model, got a drafter");
  model.shape = config.shape;
  model.vision = config.vision;
  model.audio = config.audio;

  std::string_view name;
  model.name = description["name"].get(name) ? name_from(path) : std::string(name);
  model.chunk_max = parameter(description, "chunk_max",
                              model.shape.bidirectional_images ? kLargestImageBlock : kDefaultChunk, 4096, path);
  model.verify_max = parameter(description, "verify_max", graph::kMaxVerifyRows, graph::kMaxVerifyRows, path);
  for (const std::string& drafter : drafters) add_drafter(model, config_text(drafter), drafter);
  if (drafters.empty())
    for (const char* key : {"assistant", "dflash"})
      if (!description[key].get(part)) add_drafter(model, std::string(simdjson::minify(part)), path + ": " + key);
  derive(model);
  return model;
}

}  // namespace lapidary::codegen
