// JSON without a schema: what is a beginning of it, byte by byte, and which tokens the mask allows.
#include <boost/ut.hpp>

#include "support/cases.hpp"
#include "text/grammar_samples.hpp"

namespace lapidary::test::grammar_json_test {
namespace {

using namespace boost::ut;
using text::Grammar;
using text::GrammarState;

const auto kVocabulary = small_vocabulary();
const auto kJson = Grammar::json(kVocabulary);

std::string repeated(std::string_view text, int count) {
  std::string result;
  while (count-- > 0) result += text;
  return result;
}

suite<"grammar of JSON"> json_suite = [] {
  boost::ut::test("complete texts") = [] {
    for (const char* text : {"null",
                             "true",
                             "false",
                             "0",
                             "-0",
                             "12",
                             "-3.25",
                             "1e5",
                             "1E+05",
                             "0.5e-9",
                             "999999999999999999",
                             "\"\"",
                             "\"a b\"",
                             "\"\\n\\\"\\/\"",
                             "\"\\u00e9\\uD83D\\uDE00\\uFfFf\\ud7FF\\ue000\"",
                             "\"\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xed\x9f\xbf\x7f\"",
                             "[]",
                             "{}",
                             "[ ]",
                             "{ }",
                             "[\n]",
                             "[1,2]",
                             "[1, 2]",
                             "[ 1, 2 ]",
                             "[\n  1,\n  2\n]",
                             "[\n\t1\n]",
                             "{\"a\":1}",
                             "{\"a\": 1, \"b\": {}}",
                             "{ \"a\": 1 }",
                             "{\n  \"a\": [\n    1\n  ],\n  \"b\\n\": \"\"\n}",
                             "{\"\":null}",
                             "[[],{}]",
                             "[true,false,null]"}) {
      expect(reads(kJson, text) == 2_i) << text;
    }
  };

  boost::ut::test("beginnings that are not complete") = [] {
    for (const char* text : {"", "-", "1.", "1e", "1e+", "\"", "\"\\", "\"\\u00", "\"\\ud83d", "\"\\ud83d\\u", "\"\xe6",
                             "\"\xe6\xbc", "[", "[1,", "{", "{\"a\"", "{\"a\":", "{\"a\":1,", "nul"}) {
      expect(reads(kJson, text) == 1_i) << text;
    }
  };

  boost::ut::test("not JSON") = [] {
    for (const char* text : {"00",
                             "01",
                             "+1",
                             ".5",
                             "--1",
                             "1.e",
                             "\"\n",
                             "\"\x1f",
                             "\"\\x",
                             "\"\\ug",
                             "\"\\ud83d\"",
                             "\"\\ud83da",
                             "\"\\ud83d\\n",
                             "\"\\ud83d\\u00",
                             "\"\\ude00",
                             "\"\x80",
                             "\"\xc0",
                             "\"\xc1",
                             "\"\xc3\"",
                             "\"\xe0\x9f",
                             "\"\xed\xa0",
                             "\"\xf0\x8f",
                             "\"\xf4\x90",
                             "\"\xf5",
                             "[,",
                             "[1,]",
                             "[1 ,",
                             "{,",
                             "{\"a\",",
                             "{\"a\" :",
                             "{\"a\":1,}",
                             "{a",
                             "nulL",
                             "]",
                             "}",
                             "[}",
                             "{]",
                             "1 ",
                             "{} ",
                             " 1",
                             "'"}) {
      expect(reads(kJson, text) == 0_i) << text;
    }
  };

  boost::ut::test("white space and numbers are bounded") = [] {
    expect(reads(kJson, "[\n" + repeated(" ", 32)) == 1_i);
    expect(reads(kJson, "[\n" + repeated(" ", 33)) == 0_i);
    expect(reads(kJson, "[\n" + repeated("\t", 16)) == 1_i);
    expect(reads(kJson, "[\n" + repeated("\t", 17)) == 0_i);
    for (const char* text : {"[  ", "[\n\n", "[ \n", "[\r", "[\n \t", "{\"a\":  ", "{\"a\":\n", "[1\n\n"})
      expect(reads(kJson, text) == 0_i) << text;
    expect(reads(kJson, repeated("1", 18)) == 2_i);
    expect(reads(kJson, repeated("1", 19)) == 0_i);
    expect(reads(kJson, "0." + repeated("1", 20)) == 2_i);
    expect(reads(kJson, "0." + repeated("1", 21)) == 0_i);
    expect(reads(kJson, "1e99") == 2_i);
    expect(reads(kJson, "1e100") == 0_i);
  };

  boost::ut::test("nesting is bounded, and what is open can be closed") = [] {
    expect(reads(kJson, repeated("[", 65) + repeated("]", 65)) == 2_i);
    expect(reads(kJson, repeated("[", 66)) == 0_i);
    expect(reads(kJson, repeated("{\"a\":", 64) + "{}" + repeated("}", 64)) == 2_i);
    expect(reads(kJson, repeated("{\"a\":", 64) + "1" + repeated("}", 64)) == 2_i);
    expect(reads(kJson, repeated("{\"a\":", 64) + "{\"") == 0_i);
  };

  boost::ut::test("stop ids, special and unused pieces") = [] {
    GrammarState state(kJson);
    const auto mask = [&] { return mask_of(state, kVocabulary->size(), kStopIds); };
    expect(!has_bit(mask(), kStop) && !has_bit(mask(), kUnused));
    expect(!state.accept(kStop) && !state.accept(kUnused) && !state.accept(-1) && !state.accept(kVocabulary->size()));
    for (const char c : std::string_view("{}")) expect(state.accept(byte_token(c)));
    expect(state.complete() && ids_of(mask()) == kStopIds);
    expect(state.accept(kStop) && state.complete() && !state.accept(kUnused) && !state.allows(kStop));
  };

  boost::ut::test("a refused token changes nothing, and copies go their own ways") = [] {
    GrammarState state(kJson);
    expect(state.accept(byte_token('[')));
    GrammarState copy = state;
    expect(!state.accept(byte_token('}')));
    expect(copy.accept(byte_token('1')) && copy.accept(byte_token('2')));
    expect(!state.allows(byte_token(',')) && copy.allows(byte_token(',')));
    expect(state.accept(byte_token(']')) && state.complete() && !copy.complete());
  };

  boost::ut::test("a vocabulary without all bytes is refused") = [] {
    const text::Vocabulary::Piece only[] = {{"{", text::PieceKind::text}};
    expect(outcome_of([&] { text::Vocabulary vocabulary(only); }) == "unsupported");
  };
};

}  // namespace
}  // namespace lapidary::test::grammar_json_test
