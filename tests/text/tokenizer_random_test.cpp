// The tokenizer against its definition, on texts and vocabularies nobody would write.
#include <boost/ut.hpp>

#include "reference/tokenizer.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"
#include "text/tokenizer_files.hpp"

namespace lapidary::test::tokenizer_random_test {
namespace {

using namespace boost::ut;
using text::Span;
using text::Specials;
using text::Tokenizer;
using Ids = std::vector<std::int32_t>;

constexpr int kTexts = kSlowBuild ? 500 : 3000;

const std::vector<std::string> kNasty = {
    " ", " ", "\u2581", "\u2581\u2581", "\n", "\n", "\t", "a", "b", "e", "t", "he", "in", "A", "1", "<", ">", "/", "</", "> </", "|",
    "\"", "<|turn>", "<turn|>", "<bos>", "<|", "turn>", "<turn", "<0x41>", "\u00e9", "\u4e2d", "\u2580", "\U0001f999", "\u0301",
    "\x80", "\xe2", "\xe2\x96", "\xf0\x9f", "\xff", "\xed\xa0\x80", "\xc0\xaf", std::string(1, '\0'),
};

std::string random_text(Random& random, const std::vector<std::string>& alphabet, int most) {
  std::string text;
  const int favourite = random.below(static_cast<int>(alphabet.size()));
  for (int i = random.below(most + 1); i > 0; --i)
    text += alphabet[random.chance(4) ? favourite : random.below(static_cast<int>(alphabet.size()))];
  return text;
}

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Pieces grown out of each other, so that they overlap in every way, spaces and newlines included; merges in any order.
SmallTokenizer random_tokenizer(Random& random) {
  SmallTokenizer small;
  small.pieces = {"a", "b", "\u2581", "\n", ">", "\u4e2d", "<"};
  for (int i = 0; i < 40; ++i) {
    const int size = static_cast<int>(small.pieces.size());
    const std::string left = small.pieces[random.below(size)], right = small.pieces[random.below(size)];
    if (std::ranges::find(small.merges, std::pair(left, right)) != small.merges.end()) continue;
    small.merges.insert(small.merges.begin() + random.below(static_cast<int>(small.merges.size()) + 1), {left, right});
    if (std::ranges::find(small.pieces, left + right) == small.pieces.end()) small.pieces.push_back(left + right);
  }
  small.pieces.push_back(" ");  // never met: a space in a text is U+2581 by then
  small.added = {{"<s>", true}, {"<s>>", true}, {"s>a", true}, {"\n\n", false}, {"a<s", false}, {"\u4e2d", true}};
  return small;
}

std::vector<Span> random_spans(Random& random, const std::vector<std::string>& alphabet, int most) {
  std::vector<Span> spans(static_cast<std::size_t>(random.below(5)));
  for (Span& span : spans)
    span = {random_text(random, alphabet, most), random.chance(2) ? Specials::recognise : Specials::as_text};
  return spans;
}

Ids expected_ids(const reference::Bpe& bpe, const std::vector<Span>& spans) {
  std::string text;
  std::vector<bool> special;
  for (const Span& span : spans) {
    text += span.text;
    special.resize(text.size(), span.specials == Specials::recognise);
  }
  return bpe.encode(text, special);
}

std::string with_spaces(std::string text) {
  for (std::size_t at; (at = text.find("\u2581")) != text.npos;) text.replace(at, 3, " ");
  return text;
}

const suite<"tokenizer random"> random_texts = [] {
  boost::ut::test("pebble gives the ids of the definition for any bytes and any spans") = [] {
    const reference::Bpe bpe(read_all(kRoot + "/models/pebble/tokenizer.json"));
    Random random(1);
    for (int round = 0; round < kTexts; ++round) {
      const auto spans = random_spans(random, kNasty, 30);
      expect(pebble().encode(spans) == expected_ids(bpe, spans)) << round;
    }
  };

  boost::ut::test("random vocabularies give the ids of the definition") = [] {
    const std::vector<std::string> alphabet = {"a", "a", "b", " ", " ", "\n", ">", "<", "s", "<s>", "\u4e2d", "\u2581", "x",
                                               "\xe4"};
    Random random(2);
    for (int round = 0; round < kTexts / 10; ++round) {
      const SmallTokenizer small = random_tokenizer(random);
      const Tokenizer tokenizer = small.tokenizer();
      const reference::Bpe bpe(small.text());
      for (int i = 0; i < 40; ++i) {
        const auto spans = random_spans(random, alphabet, 25);
        expect(tokenizer.encode(spans) == expected_ids(bpe, spans)) << round << i;
      }
    }
  };

  boost::ut::test("both files of pebble give the same ids") = [] {
    const TemporaryFolder folder;
    std::filesystem::copy(kRoot + "/models/pebble/tokenizer.model", folder.path("tokenizer.model"));
    const Tokenizer model = Tokenizer::open(folder.path());
    Random random(3);
    for (int round = 0; round < kTexts; ++round) {
      const auto spans = random_spans(random, kNasty, 60);
      expect(model.encode(spans) == pebble().encode(spans)) << round;
    }
  };

  boost::ut::test("any bytes come back, U+2581 as a space") = [] {
    Random random(4);
    for (int round = 0; round < kTexts * 2 / 3; ++round) {
      std::string text = random_text(random, kNasty, 40);
      for (int i = random.below(20); i > 0; --i) text += static_cast<char>(random.below(256));
      for (const Specials specials : {Specials::recognise, Specials::as_text}) {
        for (const Tokenizer* tokenizer : {&gemma4(), &pebble()}) {
          std::string back;
          for (const std::int32_t id : tokenizer->encode(text, specials)) back += tokenizer->bytes(id);
          expect(back == with_spaces(text)) << round;
        }
      }
    }
  };

  boost::ut::test("text never becomes a special token") = [] {
    Random random(5);
    for (int round = 0; round < kTexts * 2 / 3; ++round)
      for (const std::int32_t id : gemma4().encode(random_text(random, kNasty, 40), Specials::as_text))
        expect(gemma4().kind(id) != text::PieceKind::special) << round;
  };
};

const suite<"tokenizer spans"> spans = [] {
  const auto encode = [](std::vector<Span> spans) { return pebble().encode(spans); };
  const auto one = [](const char* text) { return pebble().encode(text); };

  boost::ut::test("a word runs over a border") = [=] {
    expect(encode({{"hel", Specials::recognise}, {"lo wor", Specials::as_text}, {"ld", Specials::recognise}}) ==
           one("hello world"));
  };

  boost::ut::test("a special token runs over a border between spans that both have them") = [=] {
    expect(encode({{"a<tu", Specials::recognise}, {"", Specials::recognise}, {"rn|>b", Specials::recognise}}) ==
           one("a<turn|>b"));
  };

  boost::ut::test("a special token does not run into text") = [=] {
    const Ids as_text = pebble().encode("a<turn|>b", Specials::as_text);
    expect(encode({{"a<tu", Specials::recognise}, {"rn|>b", Specials::as_text}}) == as_text);
    expect(encode({{"a<tu", Specials::as_text}, {"rn|>b", Specials::recognise}}) == as_text);
    expect(as_text != one("a<turn|>b"));
  };

  boost::ut::test("no text, no ids") = [=] {
    expect(one("").empty() && encode({}).empty() && encode({{"", Specials::as_text}}).empty());
  };
};

}  // namespace
}  // namespace lapidary::test::tokenizer_random_test
