// tokenizer.json: the vocabulary, the merges in order, the added tokens, and the options that change what they mean.
#include "checkpoint/json.hpp"
#include "text/tokenizer_builder.hpp"

namespace lapidary::text {
namespace {

std::string_view type_of(const JsonObject& object) { return object.optional_text("type").value_or(""); }

// {"pattern": {"String": " "}, ...}
bool is_about_spaces(const JsonObject& object) {
  const auto pattern = object.optional_object("pattern");
  return pattern && pattern->optional_text("String") == " ";
}

// The only normaliser of the family writes spaces as U+2581; after it, a split at spaces finds none.
void check_text_steps(const JsonObject& root) {
  const auto normalizer = root.optional_object("normalizer");
  if (!normalizer || type_of(*normalizer) != "Replace" || !is_about_spaces(*normalizer) ||
      normalizer->optional_text("content") != kSpaceMark) {
    root.reject(ErrorKind::unsupported, "normalizer", "Replace of \" \" by \"\u2581\"",
                normalizer ? '"' + printable(type_of(*normalizer)) + "\" of something else" : "nothing");
  }
  const auto split = root.optional_object("pre_tokenizer");
  if (split && (type_of(*split) != "Split" || !is_about_spaces(*split) || split->optional_boolean("invert").value_or(false))) {
    root.reject(ErrorKind::unsupported, "pre_tokenizer", "none, or Split at \" \"",
                '"' + printable(type_of(*split)) + "\" of something else");
  }
}

void check_model_options(const JsonObject& model) {
  if (type_of(model) != "BPE") model.reject(ErrorKind::unsupported, "type", "\"BPE\"");
  if (model.optional_number("dropout", 0, 1).value_or(0) != 0) model.reject(ErrorKind::unsupported, "dropout", "none");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.optional_text(key).value_or("").empty()) model.reject(ErrorKind::unsupported, key, "none");
  if (!model.optional_boolean("byte_fallback").value_or(false)) model.reject(ErrorKind::unsupported, "byte_fallback", "true");
  if (model.optional_boolean("ignore_merges").value_or(false)) model.reject(ErrorKind::unsupported, "ignore_merges", "false");
}

void read_pieces(const JsonObject& vocab, PieceIndex& index, TokenTablesBuilder& tables) {
  for (const auto& [text, value] : vocab.fields()) {
    std::int64_t id = 0;
    if (value.get(id) || id < 0 || id > INT32_MAX)
      vocab.reject(ErrorKind::wrong_type, text, "a token id", describe(value));
    tables.add_piece(static_cast<std::int32_t>(id), text);
    if (!index.insert(text, static_cast<std::int32_t>(id))) vocab.reject(ErrorKind::bad_value, text, "the key once", "it twice");
  }
}

void read_added_token(const JsonObject& token, const PieceIndex& index, TokenTablesBuilder& tables) {
  const std::int32_t id = token.integer("id", 0, INT32_MAX);
  const std::string_view name = token.text("content");
  for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"})
    if (token.optional_boolean(key).value_or(false)) token.reject(ErrorKind::unsupported, key, "false");
  const std::int32_t known = index.find(name);
  if (known < 0) tables.add_piece(id, name);
  if (known >= 0 && known != id) token.reject(ErrorKind::bad_value, "id", "the one in model.vocab, " + std::to_string(known));
  tables.add_token(id, name, token.optional_boolean("special").value_or(false));
}

// ["left", "right"] or "left right"
bool split_merge(simdjson::dom::element entry, std::string_view& left, std::string_view& right) {
  if (simdjson::dom::array parts; !entry.get(parts)) {
    auto part = parts.begin();
    if (!(part != parts.end()) || (*part).get(left) || !(++part != parts.end()) || (*part).get(right)) return false;
    return !(++part != parts.end());
  }
  if (entry.get(left)) return false;
  const std::size_t space = left.find(' ');
  if (space == left.npos || left.find(' ', space + 1) != left.npos) return false;
  right = left.substr(space + 1);
  left = left.substr(0, space);
  return true;
}

// Looks up and adds merges a block at a time.
class MergeReader {
 public:
  MergeReader(const JsonObject& model, const PieceIndex& index, TokenTablesBuilder& tables)
      : model_(model), index_(index), tables_(tables) {}

  void read(simdjson::dom::array merges) {
    for (const simdjson::dom::element entry : merges) {
      Pair& pair = pairs_[count_];
      if (!split_merge(entry, pair.left, pair.right)) reject(ErrorKind::wrong_type, "a pair of pieces", describe(entry));
      if (++count_ == pairs_.size()) add();
    }
    add();
  }

 private:
  struct Pair {
    std::string_view left, right;
  };

  void add() {
    results_.clear();
    for (const Pair& pair : std::span(pairs_).first(count_)) results_.append(pair.left).append(pair.right);
    std::array<std::string_view, 3 * kBlock> texts;
    std::array<std::int32_t, 3 * kBlock> ids;
    std::string_view results = results_;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto& [left, right] = pairs_[i];
      texts[3 * i] = left;
      texts[3 * i + 1] = right;
      texts[3 * i + 2] = results.substr(0, left.size() + right.size());
      results.remove_prefix(left.size() + right.size());
    }
    index_.find(std::span(texts).first(3 * count_), ids);
    for (std::size_t i = 0; i < 3 * count_; ++i)
      if (ids[i] < 0) reject(ErrorKind::bad_value, "pieces of model.vocab", '"' + printable(texts[i]) + '"');
    for (std::size_t i = 0; i < count_; ++i) tables_.add_merge(ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]);
    count_ = 0;
  }

  [[noreturn]] void reject(ErrorKind kind, std::string_view expected, std::string_view got) const {
    model_.reject(kind, "merges", expected, got);
  }

  static constexpr std::size_t kBlock = PieceIndex::kMost / 3;
  const JsonObject& model_;
  const PieceIndex& index_;
  TokenTablesBuilder& tables_;
  std::array<Pair, kBlock> pairs_;
  std::size_t count_ = 0;
  std::string results_;  // left and right of all pairs, one after the other
};

}  // namespace

TokenTables read_tokenizer_json(std::string_view json, std::string_view where) {
  const JsonDocument document(json, where);
  const JsonObject root = document.root();
  const JsonObject model = root.object("model");
  check_text_steps(root);
  check_model_options(model);

  const JsonObject vocab = model.object("vocab");
  const auto merges = model.optional_array("merges");
  const auto added = root.optional_array("added_tokens");
  if (!merges) model.reject(ErrorKind::missing_key, "merges", "a list");

  PieceIndex index(vocab.fields().size());
  TokenTablesBuilder builder(where, vocab.fields().size() + (added ? added->size() : 0), merges->size());
  read_pieces(vocab, index, builder);
  if (added) {
    int count = 0;
    for (const simdjson::dom::element token : *added)
      read_added_token(root.object_at("added_tokens[" + std::to_string(count++) + "]", token), index, builder);
  }
  MergeReader(model, index, builder).read(*merges);
  return std::move(builder).finish();
}

}  // namespace lapidary::text
