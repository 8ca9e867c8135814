// Ids as the published tokenizers give them.
#include <boost/ut.hpp>

#include "text/tokenizer_files.hpp"

namespace lapidary::test::tokenizer_golden_test {
namespace {

using namespace boost::ut;
using text::Specials;
using text::Tokenizer;
using Ids = std::vector<std::int32_t>;

Ids ids_of(simdjson::dom::element list) {
  Ids ids;
  for (const std::int64_t id : list.get_array()) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

std::string text_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer.bytes(id);
  return text;
}

std::string repeated(std::string_view unit, std::int64_t times) {
  std::string text;
  for (; times > 0; --times) text += unit;
  return text;
}

const suite<"tokenizer golden"> golden = [] {
  boost::ut::test("the texts of encode.json give their ids") = [] {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(kFixtures + "/tokenizer/encode.json");
    for (const simdjson::dom::element entry : root["cases"]) {
      const std::string_view text = entry["text"], decoded = entry["decoded"].error() ? text : std::string_view(entry["decoded"]);
      const Ids ids = gemma3().encode(text);
      expect(ids == ids_of(entry["ids"])) << text;
      expect(text_of(gemma3(), ids) == decoded) << text;
    }
  };

  boost::ut::test("long repetitions of encode.json give their ids") = [] {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(kFixtures + "/tokenizer/encode.json");
    for (const simdjson::dom::element entry : root["repeated"]) {
      const std::string text = repeated(entry["unit"], entry["times"]);
      const Ids ids = gemma3().encode(text), first = ids_of(entry["first"]), last = ids_of(entry["last"]);
      expect(fatal(ids.size() == std::uint64_t(entry["count"]))) << text.substr(0, 40);
      expect(std::ranges::equal(first, std::span(ids).first(first.size()))) << text.substr(0, 40);
      expect(std::ranges::equal(last, std::span(ids).last(last.size()))) << text.substr(0, 40);
      expect(text_of(gemma3(), ids) == text);
    }
  };

  boost::ut::test("the texts of chat-golden.json give their ids") = [] {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(kFixtures + "/chat-golden.json");
    for (const simdjson::dom::element entry : root["tokenizer_cases"]["cases"])
      expect(gemma4().encode(entry["text"], Specials::as_text) == ids_of(entry["ids"])) << std::string_view(entry["text"]);
    for (const simdjson::dom::element entry : root["prompt_id_cases"])
      expect(gemma4().encode(std::string_view(entry["text"])) == ids_of(entry["ids"])) << std::string_view(entry["text"]);
  };

  boost::ut::test("the prompts of pebble give their ids from either file") = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kRoot + "/models/pebble/tokenizer.model", folder.path("tokenizer.model"));
    const Tokenizer model = Tokenizer::open(folder.path());
    simdjson::dom::parser parser;
    for (const simdjson::dom::element entry : parser.load(kRoot + "/models/pebble/golden.json")) {
      const std::string_view prompt = entry["rendered"];
      expect(pebble().encode(prompt) == ids_of(entry["input_ids"])) << prompt;
      expect(model.encode(prompt) == ids_of(entry["input_ids"])) << prompt;
      expect(text_of(pebble(), ids_of(entry["greedy"])).starts_with(std::string_view(entry["text"]))) << prompt;
    }
  };
};

const suite<"vocabularies"> vocabularies = [] {
  boost::ut::test("special tokens are found by name, other added tokens and pieces are not") = [] {
    expect(gemma4().special("<turn|>") == std::optional(106) && gemma4().special("<|\"|>") == std::optional(52));
    expect(gemma4().special("<|video|>") == std::optional(258884) && pebble().special("<turn|>") == std::optional(6));
    expect(!gemma4().special("hello") && !gemma4().special("<turn") && !gemma4().special(""));
    expect(!gemma3().special("\n\n") && !gemma3().special("<table>"));
  };

  boost::ut::test("a token may lie behind the vocabulary") = [] {
    expect(gemma3().size() == 262145_i && gemma4().size() == 262144_i);
    expect(gemma3().special("<image_soft_token>") == std::optional(262144));
    expect(gemma3().encode("a<image_soft_token>") == Ids{236746, 262144});
  };

  boost::ut::test("kinds and bytes of ids") = [] {
    using text::PieceKind;
    const auto is = [](std::int32_t id, PieceKind kind, std::string_view bytes) {
      return gemma4().kind(id) == kind && gemma4().bytes(id) == bytes;
    };
    expect(is(1, PieceKind::special, "<eos>") && is(105, PieceKind::special, "<|turn>"));
    expect(is(238, PieceKind::byte, std::string_view("\0", 1)) && is(493, PieceKind::byte, "\xff"));
    expect(is(26352, PieceKind::text, " Hello") && is(139, PieceKind::text, "   ") && is(107, PieceKind::text, "\n"));
    expect(is(5, PieceKind::unused, "[multimodal]") && is(6, PieceKind::unused, "<unused0>"));
    expect(is(-1, PieceKind::unused, "") && is(262144, PieceKind::unused, "") && is(INT32_MAX, PieceKind::unused, ""));
  };

  boost::ut::test("tokenizer.model has the kinds and bytes of tokenizer.json") = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kRoot + "/models/pebble/tokenizer.model", folder.path("tokenizer.model"));
    const Tokenizer model = Tokenizer::open(folder.path());
    expect(fatal(model.size() == pebble().size()));
    for (std::int32_t id = 0; id < model.size(); ++id)
      expect(model.kind(id) == pebble().kind(id) && model.bytes(id) == pebble().bytes(id)) << id;
  };
};

}  // namespace
}  // namespace lapidary::test::tokenizer_golden_test
