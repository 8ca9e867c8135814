// Byte-pair encoding as it is defined, on strings: the whole text between two added tokens is one word, and the pair of lowest
// rank is searched for from the left until there is none. Quadratic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <simdjson.h>

namespace lapidary::test::reference {

class Bpe {
 public:
  explicit Bpe(const std::string& tokenizer_json) {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.parse(tokenizer_json);
    for (const auto& [piece, id] : root["model"]["vocab"].get_object()) ids_[std::string(piece)] = number(id);
    for (const simdjson::dom::element merge : root["model"]["merges"]) {
      const std::pair key{string(merge.at(0)), string(merge.at(1))};
      ranks_.emplace(key, ranks_.size());
    }
    for (const simdjson::dom::element token : root["added_tokens"].get_array()) {
      added_.push_back({string(token["content"]), number(token["id"]), bool(token["special"])});
      if (added_.back().special) ids_.erase(added_.back().name);  // no character of a text is a special token
    }
  }

  // special[i]: may byte i be part of a special token?
  std::vector<std::int32_t> encode(const std::string& text, const std::vector<bool>& special) const {
    std::vector<std::int32_t> ids;
    std::string plain;
    for (std::size_t at = 0; at < text.size();) {
      const Added* longest = nullptr;
      for (const Added& token : added_) {
        if (text.compare(at, token.name.size(), token.name) != 0) continue;
        bool allowed = true;
        for (std::size_t i = at; token.special && i < at + token.name.size(); ++i) allowed = allowed && special[i];
        if (allowed && (!longest || token.name.size() > longest->name.size())) longest = &token;
      }
      if (!longest) {
        plain += text[at++];
        continue;
      }
      merge(plain, ids);
      plain.clear();
      ids.push_back(longest->id);
      at += longest->name.size();
    }
    merge(plain, ids);
    return ids;
  }

 private:
  struct Added {
    std::string name;
    std::int32_t id;
    bool special;
  };

  static std::string string(simdjson::dom::element value) { return std::string(std::string_view(value)); }
  static std::int32_t number(simdjson::dom::element value) { return static_cast<std::int32_t>(std::int64_t(value)); }

  // The length of the character at the beginning, 0 when it is not one: decoded, then judged by what it would have to be.
  static std::size_t character(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
    if (length < 2 || length > text.size()) return length == 1;
    unsigned code = lead & ((1u << (7 - length)) - 1);
    for (std::size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (byte >> 6 != 2) return 0;
      code = code * 64 + byte % 64;
    }
    const unsigned least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    return code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? length : 0;
  }

  void merge(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::vector<std::string> word;
    while (!text.empty()) {
      const std::size_t length = std::max<std::size_t>(1, character(text));
      std::string piece(text.substr(0, length));
      if (piece == " ") piece = "\u2581";
      if (character(text) > 0 && ids_.contains(piece)) {
        word.push_back(piece);
      } else {
        for (const unsigned char byte : text.substr(0, length)) {
          char name[8];
          std::snprintf(name, sizeof name, "<0x%02X>", byte);
          word.push_back(name);
        }
      }
      text.remove_prefix(length);
    }
    for (;;) {
      std::size_t best = 0, best_rank = ranks_.size();
      for (std::size_t i = 0; i + 1 < word.size(); ++i) {
        const auto found = ranks_.find({word[i], word[i + 1]});
        if (found != ranks_.end() && found->second < best_rank) {
          best = i;
          best_rank = found->second;
        }
      }
      if (best_rank == ranks_.size()) break;
      word[best] += word[best + 1];
      word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    for (const std::string& piece : word) ids.push_back(ids_.at(piece));
  }

  std::map<std::string, std::int32_t> ids_;
  std::map<std::pair<std::string, std::string>, std::size_t> ranks_;
  std::vector<Added> added_;
};

}  // namespace lapidary::test::reference
