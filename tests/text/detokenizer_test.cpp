// Text while it arrives.
#include <boost/ut.hpp>

#include "support/random.hpp"
#include "text/detokenizer.hpp"
#include "text/tokenizer_files.hpp"
#include "text/utf8.hpp"

namespace lapidary::test::detokenizer_test {
namespace {

using namespace boost::ut;
using text::Detokenizer;

// One U+FFFD per maximal invalid part, of the whole at once.
std::string repaired(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const text::Utf8Step step = text::utf8_step(bytes);
    text += step.state == text::Utf8::whole ? bytes.substr(0, step.bytes) : "\ufffd";
    bytes.remove_prefix(step.bytes);
  }
  return text;
}

const suite<"detokenizer"> detokenizer = [] {
  boost::ut::test("the streams of stream.json give their text id by id") = [] {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.load(kFixtures + "/tokenizer/stream.json");
    for (const simdjson::dom::element entry : root["cases"]) {
      Detokenizer stream(gemma3(), true);
      std::string text;
      auto piece = entry["pieces"].begin();
      for (const std::int64_t id : entry["ids"].get_array()) {
        const std::string part = stream.push(static_cast<std::int32_t>(id));
        expect(part == std::string_view(*piece)) << std::string_view(entry["text"]);
        text += part;
        ++piece;
      }
      const std::string tail = stream.finish();
      expect(tail == std::string_view(entry["tail"]) && text + tail == std::string_view(entry["text"])) << text;
    }
  };

  boost::ut::test("special tokens are left out unless asked for") = [] {
    Detokenizer without(gemma4()), with(gemma4(), true);
    for (const std::int32_t id : {105, 9259, 106}) {
      expect(without.push(id) == (id == 9259 ? "Hello" : ""));
      expect(with.push(id) == gemma4().bytes(id));
    }
  };

  boost::ut::test("a special token ends the character before it, seen or not") = [] {
    Detokenizer stream(gemma4());
    expect(stream.push(238 + 0xf0).empty() && stream.push(238 + 0x9f).empty());
    expect(stream.push(106) == "\ufffd");
    expect(stream.push(238 + 0xa6) == "\ufffd" && stream.finish().empty());
  };

  boost::ut::test("ids outside of the vocabulary are nothing") = [] {
    Detokenizer stream(gemma4());
    expect(stream.push(262144).empty() && stream.push(-1).empty() && stream.push(9259) == "Hello");
  };

  boost::ut::test("random bytes arrive as they would all at once") = [] {
    Random random(1);
    const std::string bytes = "ab\x80\xbf\xc2\xe0\xa0\xe2\x96\x81\xed\x9f\xf0\x90\xf4\x8f\xff";
    for (int round = 0; round < 3000; ++round) {
      std::string all;
      for (int i = random.below(12); i > 0; --i)
        all += bytes[static_cast<std::size_t>(random.below(static_cast<int>(bytes.size())))];
      Detokenizer stream(gemma4());
      std::string text;
      for (const unsigned char byte : all) text += stream.push(238 + byte);
      expect(text + stream.finish() == repaired(all)) << round;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::detokenizer_test
