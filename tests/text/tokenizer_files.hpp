// Tokenizers for the tests: the published ones, and small ones made to order.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.hpp"
#include "support/unpack.hpp"
#include "text/tokenizer.hpp"
#include "text/value.hpp"

namespace lapidary::test {

inline text::Tokenizer packed_tokenizer(const std::string& name) {
  return text::Tokenizer::parse(unpacked(kFixtures + "/tokenizer/tokenizers.tar.xz", name), name);
}

inline const text::Tokenizer& gemma3() {
  static const auto tokenizer = packed_tokenizer("gemma3-tokenizer.json");
  return tokenizer;
}

inline const text::Tokenizer& gemma4() {
  static const auto tokenizer = packed_tokenizer("gemma4-tokenizer.json");
  return tokenizer;
}

inline const text::Tokenizer& pebble() {
  static const auto tokenizer = text::Tokenizer::open(kRoot + "/models/pebble");
  return tokenizer;
}

// A tokenizer.json of the usual kind with all byte tokens (ids 0 to 255), then these pieces.
struct SmallTokenizer {
  std::vector<std::string> pieces;                           // ids from 256 on
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<std::pair<std::string, bool>> added;           // name and special; ids after the pieces unless they are pieces

  text::Value::Object json() const {
    using text::Value;
    Value::Object vocab;
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      vocab.push_back({name, byte});
    }
    for (const std::string& piece : pieces) vocab.push_back({piece, static_cast<int>(vocab.size())});
    Value::Array merge_list, added_list;
    for (const auto& [left, right] : merges) merge_list.push_back(Value::Array{left, right});
    int next = static_cast<int>(vocab.size());
    for (const auto& [name, special] : added) {
      const auto piece = std::ranges::find(pieces, name);
      const int id = piece == pieces.end() ? next++ : 256 + static_cast<int>(piece - pieces.begin());
      added_list.push_back(Value::Object{{"id", id}, {"content", name}, {"special", special}});
    }
    return {{"added_tokens", std::move(added_list)},
            {"normalizer", Value::Object{{"type", "Replace"}, {"pattern", Value::Object{{"String", " "}}}, {"content", "\u2581"}}},
            {"pre_tokenizer", nullptr},
            {"model", Value::Object{{"type", "BPE"}, {"byte_fallback", true}, {"vocab", std::move(vocab)},
                                    {"merges", std::move(merge_list)}}}};
  }
  std::string text() const { return text::to_json(json()); }
  text::Tokenizer tokenizer() const { return text::Tokenizer::parse(text(), "small"); }
};

}  // namespace lapidary::test
