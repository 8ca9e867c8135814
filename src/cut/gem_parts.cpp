// Where the model of a cut program comes from: its own payload. `folder` may name the file of that, moved elsewhere.
#include "checkpoint/error.hpp"
#include "cut/payload.hpp"
#include "cut/tables.hpp"
#include "engine/parts.hpp"

namespace lapidary::cut {

const link::Manifest& manifest();  // of this program

}  // namespace lapidary::cut

namespace lapidary::engine {
namespace {

using cut::Payload;
using cut::Tables;

Tables read_tables(const std::shared_ptr<const Payload>& payload) {
  FlatReader reader(payload->block(cut::manifest().tables), payload->where());
  return Tables::take(reader, payload->where(), payload);
}

link::Program link_with(const ModelOptions& options, std::shared_ptr<const Payload> payload, const Tables& tables) {
  const link::Manifest& manifest = cut::manifest();
  const DraftOptions& draft = options.draft;
  if (!draft.drafters.empty())
    fail(ErrorKind::usage, "--draft-model", "expected nothing, this program was cut with its drafters, got " + draft.drafters.front());
  if (draft.kind == DraftKind::mtp && !manifest.assistant)
    fail(ErrorKind::usage, "drafting", "mtp, expected a program that was cut with an assistant, got one without");
  if (draft.kind == DraftKind::dflash && !manifest.dflash)
    fail(ErrorKind::usage, "drafting", "dflash, expected a program that was cut with such a drafter, got one without");
  link::Options resolved = options.link;
  resolved.numeric = options.numeric.value_or(link::usual_numeric(*manifest.graph));
  if (manifest.graph->tower(graph::Sense::vision)) resolved.image_tokens = options.image_tokens ? options.image_tokens : tables.image_tokens;
  const link::PlacedBlock& prepared = manifest.prepared;
  link::GemBytes bytes{.mappings = payload->mappings(), .constants = tables.constants, .orders = tables.orders, .prepared = {},
                       .keeper = payload};
  bytes.prepared = bytes.mappings[0].subspan(static_cast<std::size_t>(prepared.offset), static_cast<std::size_t>(prepared.bytes));
  return link::link(manifest, bytes, draft.wanted(), resolved);
}

text::Tokenizer tokenizer_of(Tables tables, const Payload& payload) {
  if (!tables.tokenizer) fail(ErrorKind::io, payload.where(), "tokenizer, expected that of the checkpoint, which had none");
  return std::move(*tables.tokenizer);
}

Parts::MakeVocabulary vocabulary_of(const std::shared_ptr<const Payload>& payload, const link::PlacedBlock& placed) {
  return [payload, &placed](const text::Tokenizer&) {
    FlatReader reader(payload->block(placed), payload->where());
    return std::make_shared<const text::Vocabulary>(text::Vocabulary::take(reader, payload->where()));
  };
}

}  // namespace

const link::Manifest* gem() { return &cut::manifest(); }

bool has_tokenizer(const std::string&) { return cut::manifest().vocabulary.bytes > 0; }

text::Tokenizer open_tokenizer(const std::string& folder) {
  const auto payload = std::make_shared<const Payload>(cut::manifest(), folder);
  return tokenizer_of(read_tables(payload), *payload);
}

std::size_t vocabulary_bytes(const text::Tokenizer&) { return static_cast<std::size_t>(cut::manifest().vocabulary_bytes); }

std::int32_t image_budget(const std::string& folder) {
  return read_tables(std::make_shared<const Payload>(cut::manifest(), folder)).image_tokens;
}

SoftIds soft_ids(const std::string& folder) { return read_tables(std::make_shared<const Payload>(cut::manifest(), folder)).soft_ids; }

link::Program open_program(const ModelOptions& options) {
  const auto payload = std::make_shared<const Payload>(cut::manifest(), options.folder);
  return link_with(options, payload, read_tables(payload));
}

Parts open_parts(const ModelOptions& options) {
  options.begin_stage("payload");
  const link::Manifest& manifest = cut::manifest();
  const auto payload = std::make_shared<const Payload>(manifest, options.folder);
  Tables tables = read_tables(payload);
  link::Program program = link_with(options, payload, tables);
  const text::Template chat_template = tables.chat_template;
  decode::GenerationDefaults defaults = std::move(tables.defaults);
  const std::int32_t image_tokens = options.image_tokens ? options.image_tokens : tables.image_tokens;
  return {.program = std::move(program), .tokenizer = tokenizer_of(std::move(tables), *payload), .chat_template = chat_template,
          .defaults = std::move(defaults), .image_tokens = image_tokens, .make_vocabulary = vocabulary_of(payload, manifest.vocabulary),
          .make_call_vocabulary = manifest.call_vocabulary.bytes ? vocabulary_of(payload, manifest.call_vocabulary)
                                                                 : Parts::MakeVocabulary(text::call_vocabulary)};
}

}  // namespace lapidary::engine
