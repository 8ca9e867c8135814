// POST /tokenize, /detokenize, /apply-template: bodies in, bodies out. Conversations become tokens where chats' do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "serve/api.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::serve {

struct PlainText {
  std::string text;
  bool add_special = false;    // <bos> goes in front, unless it is there
  bool parse_special = false;  // names of special tokens become their ids
};

struct TokenizeRequest {
  std::variant<PlainText, ChatPrompt> content;
  bool with_pieces = false;
};

TokenizeRequest read_tokenize(const text::Value& body, const Facts& facts);
std::vector<std::int32_t> read_detokenize(const text::Value& body, const Facts& facts);
ChatPrompt read_apply_template(const text::Value& body, const Facts& facts);

std::vector<std::int32_t> ids_of(const PlainText& text, const text::Tokenizer& tokenizer);
// {"tokens":[...]}, {"content"} and {"prompt"}.
std::string tokens_body(std::span<const std::int32_t> ids, bool with_pieces, const text::Tokenizer& tokenizer);
std::string content_body(std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer);
std::string prompt_body(std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer);

}  // namespace lapidary::serve
