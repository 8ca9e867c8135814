#include <boost/ut.hpp>

#include "serve/requests.hpp"
#include "serve/tokens_api.hpp"
#include "text/chat.hpp"
#include "text/tokenizer_files.hpp"

namespace lapidary::test::tokens_api_test {
namespace {

using namespace boost::ut;
using namespace serve;
using text::Value;

Facts facts() {
  Facts facts = some_facts();
  facts.vocab = pebble().size();
  return facts;
}

std::string tokenized(const std::string& body) {
  const TokenizeRequest request = read_tokenize(parse_body(body), facts());
  return tokens_body(ids_of(std::get<PlainText>(request.content), pebble()), request.with_pieces, pebble());
}

std::string numbers(const std::vector<std::int32_t>& ids) {
  Value::Array list;
  for (const std::int32_t id : ids) list.push_back(id);
  return text::to_json(list);
}

suite<"tokens"> tokens = [] {
  "of a text"_test = [] {
    const std::int32_t bos = *pebble().special("<bos>"), turn = *pebble().special("<|turn>");
    const auto plain = pebble().encode("<|turn>hi", text::Specials::as_text);
    auto with_bos = plain;
    with_bos.insert(with_bos.begin(), bos);
    expect(plain.front() != turn);
    expect(tokenized(R"({"content":"<|turn>hi"})") == "{\"tokens\":" + numbers(plain) + "}");
    expect(tokenized(R"({"content":"<|turn>hi","add_special":true})") == "{\"tokens\":" + numbers(with_bos) + "}");
    expect(tokenized(R"({"content":"<|turn>","parse_special":true})") == "{\"tokens\":" + numbers({turn}) + "}");
    expect(tokenized(R"({"content":"<bos>","parse_special":true,"add_special":true})") == "{\"tokens\":" + numbers({bos}) + "}");
    expect(tokenized(R"({"content":""})") == R"({"tokens":[]})");
  };

  "with their pieces, bytes where they are no text"_test = [] {
    const std::int32_t turn = *pebble().special("<|turn>");
    expect(tokenized(R"({"content":"<|turn>","parse_special":true,"with_pieces":true})") ==
           R"({"tokens":[{"id":)" + std::to_string(turn) + R"(,"piece":"<|turn>"}]})");
    const auto ids = pebble().encode("\xf0\x9f\xa6\x99", text::Specials::as_text);
    std::string bytes;
    for (const std::int32_t id : ids) bytes += pebble().bytes(id);
    expect(bytes == "🦙");
    expect(pebble().kind(ids.back()) == text::PieceKind::byte);
    expect(tokens_body(std::span(ids).last(1), true, pebble()) == R"({"tokens":[{"id":)" + std::to_string(ids.back()) + R"(,"piece":[153]}]})");
  };

  "of a conversation, as chats have it"_test = [] {
    const TokenizeRequest request = read_tokenize(
        parse_body(R"({"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"enable_thinking":true},"with_pieces":true})"), facts());
    expect(request.with_pieces && std::get<ChatPrompt>(request.content).think);
    const ChatPrompt prompt = read_apply_template(
        parse_body(R"({"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]})"), facts());
    expect(prompt_body(pebble().encode(text::render(prompt.messages, prompt.tools, {}, {})), pebble()) ==
           R"({"prompt":"<bos><|turn>system\n<|tool>declaration:f{description:<|\"|><|\"|>}<tool|><turn|>\n<|turn>user\nhi<turn|>\n<|turn>model\n<|channel>thought\n<channel|>"})");
  };

  "back to text"_test = [] {
    const std::int32_t turn = *pebble().special("<|turn>");
    auto ids = pebble().encode("hi 🦙", text::Specials::as_text);
    expect(content_body(ids, pebble()) == R"({"content":"hi 🦙"})");
    ids.pop_back();
    ids.push_back(turn);
    expect(content_body(ids, pebble()) == "{\"content\":\"hi \xef\xbf\xbd<|turn>\"}");
    expect(read_detokenize(parse_body(R"({"tokens":[1,2]})"), facts()) == std::vector<std::int32_t>{1, 2});
    expect(content_body(read_detokenize(parse_body(R"({"tokens":[]})"), facts()), pebble()) == R"({"content":""})");
  };

  "bodies that are wrong"_test = [] {
    const auto tokenize = [](const std::string& body) { return verdict_of([&] { read_tokenize(parse_body(body), some_facts()); }); };
    const auto detokenize = [](const std::string& body) { return verdict_of([&] { read_detokenize(parse_body(body), some_facts()); }); };
    const auto apply = [](const std::string& body) { return verdict_of([&] { read_apply_template(parse_body(body), some_facts()); }); };
    expect(tokenize("{}") == "content invalid_value" && tokenize(R"({"content":null})") == "content invalid_value" &&
           tokenize(R"({"content":1})") == "content invalid_value");
    expect(tokenize(R"({"content":"x","messages":[{"role":"user","content":"x"}]})") == "messages invalid_value");
    expect(tokenize(R"({"content":"x","add_special":1})") == "add_special invalid_value" &&
           tokenize(R"({"content":"x","parse_special":"x"})") == "parse_special invalid_value");
    expect(tokenize(R"({"content":"x","with_pieces":0})") == "with_pieces invalid_value" &&
           tokenize(R"({"content":"x","tools":[]})") == "tools unknown_parameter");
    expect(tokenize(R"({"messages":[{"role":"user","content":"x"}],"add_special":true})") == "add_special unknown_parameter");
    expect(tokenize(R"({"messages":[]})") == "messages invalid_value" && tokenize(R"({"content":"x","model":"y"})") == "model model_not_found");
    expect(tokenize(R"({"content":"x","add_special":null,"parse_special":null,"with_pieces":null,"model":null,"messages":null})") == "ok");
    expect(detokenize("{}") == "tokens invalid_value" && detokenize(R"({"tokens":1})") == "tokens invalid_value" &&
           detokenize(R"({"tokens":[1000]})") == "tokens[0] invalid_value");
    expect(detokenize(R"({"tokens":[1,"2"]})") == "tokens[1] invalid_value" && detokenize(R"({"tokens":[1.0]})") == "tokens[0] invalid_value");
    expect(detokenize(R"({"tokens":[],"x":1})") == "x unknown_parameter");
    expect(apply("{}") == "messages invalid_value" &&
           apply(R"({"messages":[{"role":"user","content":"x"}],"content":"x"})") == "content unknown_parameter");
  };
};

}  // namespace
}  // namespace lapidary::test::tokens_api_test
