#include "serve/tokens_api.hpp"

#include "serve/chat_messages.hpp"
#include "serve/events.hpp"
#include "text/chat.hpp"
#include "text/detokenizer.hpp"
#include "text/utf8.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

ChatPrompt read_conversation(Fields& body, const Facts& facts) {
  ChatPrompt prompt = read_chat_prompt(body, facts);
  prompt.tools = read_chat_tools(body).declared();
  return prompt;
}

// Special tokens by their names.
std::string text_of(std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer) {
  text::Detokenizer detokenizer(tokenizer, true);
  std::string text;
  for (const std::int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

}  // namespace

TokenizeRequest read_tokenize(const Value& given, const Facts& facts) {
  Fields body(given);
  TokenizeRequest request;
  read_model_name(body, facts);
  request.with_pieces = body.boolean("with_pieces").value_or(false);
  const std::string* content = body.text("content");
  if (content && body.find("messages")) refuse("messages", "expected these or `content`, got both");
  if (content) {
    request.content = PlainText{.text = *content,
                                .add_special = body.boolean("add_special").value_or(false),
                                .parse_special = body.boolean("parse_special").value_or(false)};
  } else {
    if (!body.find("messages")) refuse("content", "expected a text here or `messages`, got neither");
    request.content = read_conversation(body, facts);
  }
  body.finish();
  return request;
}

std::vector<std::int32_t> read_detokenize(const Value& given, const Facts& facts) {
  Fields body(given);
  read_model_name(body, facts);
  body.need("tokens", "a list of token ids");
  std::vector<std::int32_t> ids = read_ids(*body.list("tokens"), body.path_of("tokens"), facts.vocab);
  body.finish();
  return ids;
}

ChatPrompt read_apply_template(const Value& given, const Facts& facts) {
  Fields body(given);
  read_model_name(body, facts);
  ChatPrompt prompt = read_conversation(body, facts);
  body.finish();
  return prompt;
}

std::vector<std::int32_t> ids_of(const PlainText& text, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids = tokenizer.encode(text.text, text.parse_special ? text::Specials::recognise : text::Specials::as_text);
  const auto bos = tokenizer.special("<bos>");
  if (text.add_special && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

std::string tokens_body(std::span<const std::int32_t> ids, bool with_pieces, const text::Tokenizer& tokenizer) {
  Value::Array tokens;
  for (const std::int32_t id : ids) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (with_pieces) tokens.push_back(Value::Object{{"id", id}, {"piece", text::is_utf8(bytes) ? Value(bytes) : bytes_list(bytes)}});
    else tokens.push_back(id);
  }
  return text::to_json(Value::Object{{"tokens", std::move(tokens)}});
}

std::string content_body(std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer) {
  return text::to_json(Value::Object{{"content", text_of(ids, tokenizer)}});
}

std::string prompt_body(std::span<const std::int32_t> ids, const text::Tokenizer& tokenizer) {
  return text::to_json(Value::Object{{"prompt", text_of(ids, tokenizer)}});
}

}  // namespace lapidary::serve
