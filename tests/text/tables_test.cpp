// Tables that are used where they lie: what was put is taken, and less is refused.
#include <boost/ut.hpp>

#include "checkpoint/flat.hpp"
#include "support/cases.hpp"
#include "text/grammar_vocabulary.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::test::tables_test {
namespace {

using namespace boost::ut;
using text::Tokenizer;
using text::Vocabulary;

const suite<"tables"> tables = [] {
  "a tokenizer and its vocabulary are the same from their tables"_test = [] {
    const Tokenizer read = Tokenizer::open(kRoot + "/models/pebble");
    const Vocabulary built(read);
    FlatWriter writer;
    read.put(writer);
    built.put(writer);
    std::vector<std::byte> aligned(writer.bytes().size() + kFlatLine);
    std::byte* begin = aligned.data() + (kFlatLine - reinterpret_cast<std::uintptr_t>(aligned.data()) % kFlatLine) % kFlatLine;
    std::memcpy(begin, writer.bytes().data(), writer.bytes().size());
    FlatReader reader({begin, writer.bytes().size()}, "tables");
    const Tokenizer mapped = Tokenizer::take(reader, "tables", nullptr);
    const Vocabulary vocabulary = Vocabulary::take(reader, "tables");
    expect(mapped.size() == read.size() && mapped.memory_bytes() < 1024u);
    for (std::int32_t id = -1; id <= read.size(); ++id)
      expect(mapped.bytes(id) == read.bytes(id) && mapped.kind(id) == read.kind(id) && vocabulary.bytes(id) == built.bytes(id) &&
             vocabulary.is_special(id) == built.is_special(id)) << id;
    const std::string text = "A fox, <|turn>user\n 3.14 \xf0\x9f\xa6\x8a \xff\xfe caf\xc3\xa9    end";
    for (const text::Specials specials : {text::Specials::recognise, text::Specials::as_text})
      expect(mapped.encode(text, specials) == read.encode(text, specials));
    expect(mapped.special("<bos>") == read.special("<bos>") && mapped.special("fox") == std::nullopt);
    expect(std::ranges::equal(vocabulary.plain(2), built.plain(2)) && vocabulary.all().nodes.size() == built.all().nodes.size());

    int refused = 0;
    for (std::size_t size = 0; size < writer.bytes().size(); size += writer.bytes().size() / 50) {
      FlatReader less({begin, size}, "tables");
      refused += error_of([&] { Tokenizer::take(less, "tables", nullptr), Vocabulary::take(less, "tables"); }).has_value();
    }
    expect(refused >= 50_i);
  };
};

}  // namespace
}  // namespace lapidary::test::tables_test
