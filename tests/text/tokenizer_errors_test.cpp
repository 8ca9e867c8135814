// Files that are broken, or that ask for what is not there.
#include <boost/ut.hpp>

#include "support/random.hpp"
#include "text/tokenizer_files.hpp"

namespace lapidary::test::tokenizer_errors_test {
namespace {

using namespace boost::ut;
using text::Tokenizer;
using text::Value;

SmallTokenizer small() {
  return {.pieces = {"a", "b", "ab", "\u2581"}, .merges = {{"a", "b"}}, .added = {{"<s>", true}}};
}

// The small tokenizer with the value at "model.vocab.a" or "added_tokens.0.id" set; a missing last key is added.
std::string with(std::string_view path, Value value) {
  const auto set = [](auto&& self, Value target, std::string_view rest, const Value& to) -> Value {
    if (rest.empty()) return to;
    const std::string_view key = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(rest.size(), key.size() + 1));
    if (const Value::Array* array = target.array()) {
      Value::Array items = *array;
      const auto place = static_cast<std::size_t>(key[0] - '0');
      items[place] = self(self, items[place], rest, to);
      return items;
    }
    Value::Object fields = *target.object();
    for (auto& [name, field] : fields) {
      if (name != key) continue;
      field = self(self, field, rest, to);
      return fields;
    }
    fields.push_back({std::string(key), to});
    return fields;
  };
  return text::to_json(set(set, small().json(), path, value));
}

std::optional<Error> error_in(const std::string& json) {
  return error_of([&] { Tokenizer::parse(json, "tokenizer.json"); });
}

const suite<"tokenizer errors"> errors = [] {
  boost::ut::test("the small tokenizer is a good one") = [] {
    expect(small().tokenizer().encode("ab<s> c") == std::vector<std::int32_t>{258, 260, 259, 'c'});
  };

  struct Wrong {
    const char* path;
    Value value;
    ErrorKind kind;
    const char* mentions;
  };
  const Value::Object newline_replace{{"type", "Replace"}, {"pattern", Value::Object{{"String", "\n"}}}, {"content", "\u2581"}};
  const std::vector<Wrong> wrongs = {
      {"normalizer", nullptr, ErrorKind::unsupported, "normalizer"},
      {"normalizer.type", "NFKC", ErrorKind::unsupported, "normalizer"},
      {"normalizer.content", "_", ErrorKind::unsupported, "normalizer"},
      {"normalizer", newline_replace, ErrorKind::unsupported, "normalizer"},
      {"normalizer", "NFKC", ErrorKind::wrong_type, "normalizer"},
      {"pre_tokenizer", Value::Object{{"type", "ByteLevel"}}, ErrorKind::unsupported, "pre_tokenizer"},
      {"pre_tokenizer", newline_replace, ErrorKind::unsupported, "pre_tokenizer"},
      {"model", nullptr, ErrorKind::wrong_type, "model"},
      {"model.type", "Unigram", ErrorKind::unsupported, "model.type"},
      {"model.dropout", 0.5, ErrorKind::unsupported, "model.dropout"},
      {"model.byte_fallback", false, ErrorKind::unsupported, "model.byte_fallback"},
      {"model.ignore_merges", true, ErrorKind::unsupported, "model.ignore_merges"},
      {"model.continuing_subword_prefix", "##", ErrorKind::unsupported, "model.continuing_subword_prefix"},
      {"model.end_of_word_suffix", "</w>", ErrorKind::unsupported, "model.end_of_word_suffix"},
      {"model.vocab", nullptr, ErrorKind::wrong_type, "model.vocab"},
      {"model.vocab", Value::Object{}, ErrorKind::bad_value, "id of \"<s>\""},
      {"model.vocab.a", "256", ErrorKind::wrong_type, "model.vocab.a"},
      {"model.vocab.a", -1, ErrorKind::wrong_type, "model.vocab.a"},
      {"model.vocab.a", 257, ErrorKind::bad_value, "id 257"},
      {"model.vocab.a", 2000000000, ErrorKind::bad_value, "id of \"a\""},
      {"model.merges", nullptr, ErrorKind::missing_key, "model.merges"},
      {"model.merges.0", "a", ErrorKind::wrong_type, "model.merges"},
      {"model.merges.0", "a b c", ErrorKind::wrong_type, "model.merges"},
      {"model.merges.0", Value::Array{"a"}, ErrorKind::wrong_type, "model.merges"},
      {"model.merges.0", Value::Array{"a", "b", "c"}, ErrorKind::wrong_type, "model.merges"},
      {"model.merges.0", Value::Array{"a", 1}, ErrorKind::wrong_type, "model.merges"},
      {"model.merges.0", Value::Array{"a", "x"}, ErrorKind::bad_value, "\"x\""},
      {"model.merges.0", Value::Array{"b", "a"}, ErrorKind::bad_value, "\"ba\""},
      {"model.merges", Value::Array{"a b", "a b"}, ErrorKind::bad_value, "merge 1"},
      {"added_tokens", Value::Object{}, ErrorKind::wrong_type, "added_tokens"},
      {"added_tokens.0", "<s>", ErrorKind::wrong_type, "added_tokens[0]"},
      {"added_tokens.0.id", 5, ErrorKind::bad_value, "id 5"},
      {"added_tokens.0.content", "a", ErrorKind::bad_value, "added_tokens[0].id"},
      {"added_tokens.0.content", "", ErrorKind::bad_value, "added token"},
      {"added_tokens.0.content", std::string(1000, 'x'), ErrorKind::bad_value, "256 bytes, got 1000"},
      {"added_tokens.0.lstrip", true, ErrorKind::unsupported, "added_tokens[0].lstrip"},
      {"added_tokens.0.normalized", true, ErrorKind::unsupported, "added_tokens[0].normalized"},
  };
  for (const Wrong& wrong : wrongs) {
    boost::ut::test(std::string(wrong.path) + " = " + text::to_json(wrong.value).substr(0, 60)) = [=] {
      const auto error = error_in(with(wrong.path, wrong.value));
      expect(fatal(error.has_value()));
      expect(error->kind == wrong.kind && error->message().find(wrong.mentions) != std::string::npos) << error->message();
    };
  }

  boost::ut::test("a byte token is missing, merged or added") = [] {
    SmallTokenizer merged = small(), added = small(), special = small();
    merged.pieces.push_back("<0x41>a");
    merged.merges.push_back({"<0x41>", "a"});
    added.added.push_back({"<0x41>", false});
    special.added.push_back({"ab", true});
    std::string missing = small().text();
    missing.replace(missing.find("<0x41>"), 6, "<0x4x>");
    for (const std::string& json : {merged.text(), missing, special.text()}) {
      const auto error = error_in(json);
      expect(fatal(error.has_value()));
      expect(error->kind == ErrorKind::bad_value) << error->message();
    }
    expect(error_in(added.text()).has_value());
  };

  boost::ut::test("a piece is longer than any should be") = [] {
    SmallTokenizer longest = small(), longer = small();
    longest.pieces.push_back(std::string(256, 'a'));
    longer.pieces.push_back(std::string(257, 'a'));
    expect(!error_in(longest.text()));
    const auto error = error_in(longer.text());
    expect(fatal(error.has_value()));
    expect(error->message().find("expected at most 256 bytes, got 257") != std::string::npos) << error->message();
  };

  boost::ut::test("a file that is cut, broken or absent") = [] {
    const std::string json = small().text();
    for (std::size_t size = 0; size < json.size(); size += 7)
      expect(outcome_of([&] { Tokenizer::parse(json.substr(0, size), "x"); }) == "not_json");
    expect(outcome_of([&] { Tokenizer::parse("[]", "x"); }) == "not_json");
    const TemporaryFolder folder;
    expect(outcome_of([&] { Tokenizer::open(folder.path()); }) == "io");
    folder.write("tokenizer.model", "");
    expect(outcome_of([&] { Tokenizer::open(folder.path()); }) == "bad_value");
    folder.write("tokenizer.json", "");
    expect(outcome_of([&] { Tokenizer::open(folder.path()); }) == "not_json");
  };

  boost::ut::test("what fuzzing starts from is one good file and one bad one") = [] {
    const std::string folder = kFixtures + "/bad/tokenizer/";
    expect(outcome_of([&] { Tokenizer::parse(read_text_file(folder + "ok-small.json"), "x"); }) == "ok");
    expect(outcome_of([&] { Tokenizer::parse(read_text_file(folder + "merge-unknown.json"), "x"); }) == "bad_value");
  };

  boost::ut::test("a damaged tokenizer.model loads or is refused") = [] {
    std::ifstream file(kRoot + "/models/pebble/tokenizer.model", std::ios::binary);
    const std::string model{std::istreambuf_iterator<char>(file), {}};
    Random random(1);
    const TemporaryFolder folder;
    int refused = 0;
    for (int round = 0; round < 100; ++round) {
      std::string damaged = model;
      for (int i = random.below(4); i >= 0; --i)
        damaged[static_cast<std::size_t>(random.below(static_cast<int>(model.size())))] = static_cast<char>(random.below(256));
      if (random.chance(4)) damaged.resize(static_cast<std::size_t>(random.below(static_cast<int>(model.size()))));
      folder.write("tokenizer.model", damaged);
      refused += error_of([&] { Tokenizer::open(folder.path()).encode("some text"); }).has_value();
    }
    expect(refused > 20);
  };
};

}  // namespace
}  // namespace lapidary::test::tokenizer_errors_test
