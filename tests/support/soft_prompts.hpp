// Prompts of fixtures/soft: tokens with pictures and sounds among them, whose soft tokens are those of the reference.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <simdjson.h>

#include "decode/soft.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "text/value.hpp"

namespace lapidary::test {

struct SoftPrompt {
  std::vector<std::int32_t> ids{};
  std::vector<decode::SoftBlock> blocks{};
  std::vector<std::vector<float>> values{};     // by block: [tokens, hidden]
  std::vector<std::span<const float>> rows{};   // the same

  SoftPrompt() = default;
  SoftPrompt(SoftPrompt&&) = default;
  SoftPrompt(const SoftPrompt& other) : ids(other.ids), blocks(other.blocks), values(other.values) {
    for (const auto& of_block : values) rows.push_back(of_block);
  }

  decode::SoftTokens soft() const { return {blocks, rows}; }
  std::int32_t size() const { return static_cast<std::int32_t>(ids.size()); }
  std::span<const std::int32_t> from(std::int32_t first) const { return std::span(ids).subspan(static_cast<std::size_t>(first)); }

  void add_block(std::int32_t begin, bool is_image, const std::string& content, std::vector<float> soft, std::int32_t tokens) {
    blocks.push_back({begin, begin + tokens, is_image, content});
    values.push_back(std::move(soft));
    rows.push_back(values.back());
  }

  // Another picture of the same size in the place of block b.
  SoftPrompt with_another(std::size_t b) const {
    SoftPrompt other = *this;
    other.blocks[b].content += " upside down";
    std::ranges::reverse(other.values[b]);
    return other;
  }
};

inline text::Value::Array list_of(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }

// The prompt for `lapidary logits`, with its files, each kind in order.
inline text::Value entry_of(const SoftPrompt& prompt) {
  text::Value::Array images, audio;
  for (const decode::SoftBlock& block : prompt.blocks)
    (block.is_image ? images : audio)
        .emplace_back(kFixtures + (block.is_image ? "/images/" + block.content + ".png" : "/audio/" + block.content + ".wav"));
  return text::Value::Object{{"ids", list_of(prompt.ids)}, {"images", images}, {"audio", audio}, {"image_tokens", 70}};
}

class SoftFixture {
 public:
  // kind: dense, ple or unified
  explicit SoftFixture(const std::string& kind) : expected(kFixtures + "/soft/" + kind + "/expected.safetensors") {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(kFixtures + "/soft/" + kind + "/expected.json");
    for (const auto& [name, entry] : simdjson::dom::object(root["prompts"])) {
      std::vector<std::string> names[2];  // of images, of audio
      for (const std::string_view image : entry["images"].get_array()) names[0].emplace_back(image);
      for (const std::string_view audio : entry["audio"].get_array()) names[1].emplace_back(audio);
      prompts.emplace(name, read(std::string(name), names));
    }
  }

  Expected expected;
  std::map<std::string, SoftPrompt> prompts;

 private:
  SoftPrompt read(const std::string& name, const std::vector<std::string> (&names)[2]) const {
    constexpr std::int32_t kText = 0, kImage = 1;
    SoftPrompt prompt;
    prompt.ids = expected.ids(name + ".input_ids");
    const std::vector<std::int32_t> types = expected.ids(name + ".types");
    std::size_t used[2] = {};
    for (std::size_t i = 0; i < types.size();) {
      std::size_t end = i + 1;
      while (end < types.size() && types[end] == types[i]) ++end;
      if (types[i] != kText) {
        const std::size_t kind = types[i] == kImage ? 0 : 1;
        const std::string& medium = names[kind][used[kind]++];
        prompt.add_block(static_cast<std::int32_t>(i), kind == 0, medium, expected.floats(medium + ".soft"), static_cast<std::int32_t>(end - i));
      }
      i = end;
    }
    return prompt;
  }
};

}  // namespace lapidary::test
