// tokenizer.model: sentencepiece reads the pieces; the merges follow from them.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "checkpoint/error.hpp"
#include "text/tokenizer_bpe.hpp"
#include "text/tokenizer_builder.hpp"
#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

using sentencepiece::SentencePieceProcessor;

// One way to make a piece of two.
struct Split {
  float score;  // of the piece
  std::uint32_t left_characters, right_characters;
  std::int32_t left, right, result;
};

// A model calls its markers "user defined", like runs of newlines, and does not say so: they are known by their spelling.
bool is_marker(std::string_view name) {
  if (name == "<mask>") return true;
  return name.size() > 3 && name.front() == '<' && name.back() == '>' && (name[1] == '|' || name[name.size() - 2] == '|');
}

bool is_special(const SentencePieceProcessor& model, int id) {
  return model.IsControl(id) || model.IsUnknown(id) || is_marker(model.IdToPiece(id));
}

std::uint32_t count_characters(std::string_view text) {
  return static_cast<std::uint32_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

void check_utf8(std::string_view piece, std::string_view where) {
  for (std::size_t at = 0; at < piece.size();) {
    const Utf8Step step = utf8_step(piece.substr(at));
    if (step.state != Utf8::whole) fail(ErrorKind::bad_utf8, std::string(where), "pieces, expected UTF-8, got something else");
    at += step.bytes;
  }
}

// Every piece from every two pieces: the best score first, then the longest left part, then the longest right part.
std::vector<Split> find_splits(const SentencePieceProcessor& model, const PieceIndex& ordinary) {
  std::vector<Split> splits;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    const std::string_view piece = model.IdToPiece(id);
    if (ordinary.find(piece) != id) continue;
    const std::uint32_t characters = count_characters(piece);
    for (std::size_t at = 1; at < piece.size(); ++at) {
      if ((piece[at] & 0xc0) == 0x80) continue;
      const std::int32_t left = ordinary.find(piece.substr(0, at)), right = ordinary.find(piece.substr(at));
      if (left < 0 || right < 0) continue;
      const std::uint32_t left_characters = count_characters(piece.substr(0, at));
      splits.push_back({model.GetScore(id), left_characters, characters - left_characters, left, right, id});
    }
  }
  std::ranges::sort(splits, std::greater{}, [](const Split& split) {
    return std::tuple(split.score, split.left_characters, split.right_characters, -split.result);
  });
  return splits;
}

// The library does not tell which normaliser and which algorithm a model asks for; what it makes of a text with unusual
// spaces, ligatures and full-width letters does.
void check_agreement(const SentencePieceProcessor& model, const TokenTables& tables, std::string_view where) {
  constexpr std::string_view kProbe =
      "  The quick  brown fox, number \u2167, \ufb01nally jumps over \uff21 lazy\u00a0dogs' internationalisation. ";
  std::vector<int> theirs;
  std::vector<std::int32_t> ours;
  BpeEncoder(tables, ours).encode(kProbe);
  if (!model.Encode({kProbe.data(), kProbe.size()}, &theirs).ok() || !std::ranges::equal(ours, theirs)) {
    fail(ErrorKind::unsupported, std::string(where),
         "model, expected byte-pair encoding of text as it is, got another algorithm or normaliser");
  }
}

}  // namespace

TokenTables read_tokenizer_model(std::string_view bytes, std::string_view where) {
  SentencePieceProcessor model;
  if (!model.LoadFromSerializedProto({bytes.data(), bytes.size()}).ok())
    fail(ErrorKind::bad_value, std::string(where), "content, expected a sentencepiece model, got something else");
  const int size = model.GetPieceSize();

  PieceIndex ordinary(static_cast<std::size_t>(size));
  for (int id = 0; id < size; ++id) {
    check_utf8(model.IdToPiece(id), where);
    if (!std::isfinite(model.GetScore(id))) fail(ErrorKind::not_finite, std::string(where), "scores, expected finite numbers");
    if (!is_special(model, id) && !model.IsByte(id) && !model.IsUnused(id)) ordinary.insert(model.IdToPiece(id), id);
  }
  const std::vector<Split> splits = find_splits(model, ordinary);

  TokenTablesBuilder builder(where, static_cast<std::size_t>(size), splits.size());
  for (int id = 0; id < size; ++id) builder.add_piece(id, model.IdToPiece(id));
  for (int id = 0; id < size; ++id)
    if (is_special(model, id)) builder.add_token(id, model.IdToPiece(id), true);
  for (const Split& split : splits) builder.add_merge(split.left, split.right, split.result);
  TokenTables tables = std::move(builder).finish();
  check_agreement(model, tables, where);
  return tables;
}

}  // namespace lapidary::text
