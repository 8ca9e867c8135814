#include "engine/parts.hpp"

namespace lapidary::engine {
namespace {

std::int32_t image_tokens_of(const ModelOptions& options) {
  return options.image_tokens ? options.image_tokens : read_image_budget(options.folder);
}

}  // namespace

const link::Manifest* gem() { return nullptr; }

bool has_tokenizer(const std::string& folder) { return text::Tokenizer::is_in(folder); }

text::Tokenizer open_tokenizer(const std::string& folder) { return text::Tokenizer::open(folder); }

std::size_t vocabulary_bytes(const text::Tokenizer& tokenizer) { return text::Vocabulary::most_bytes(tokenizer); }

std::int32_t image_budget(const std::string& folder) { return read_image_budget(folder); }

SoftIds soft_ids(const std::string& folder) { return SoftIds::of_config(folder); }

link::Program open_program(const ModelOptions& options) {
  options.begin_stage("checkpoint");
  const link::Pairing pairing = pair(options.draft, options.folder);
  link::Options resolved = options.link;
  if (pairing.graph->tower(graph::Sense::vision)) resolved.image_tokens = image_tokens_of(options);
  resolved.numeric = options.numeric.value_or(link::usual_numeric(*pairing.graph));
  const auto linked = [&](link::Drafters with) {
    const auto opened = [](bool taken, const std::string& folder) {
      return taken && !folder.empty() ? std::optional(Checkpoint::open(folder)) : std::nullopt;
    };
    return link::link(Checkpoint::open(options.folder), opened(with.assistant, pairing.assistant), *pairing.graph, resolved,
                      opened(with.dflash, pairing.dflash));
  };
  if (pairing.assistant.empty() && pairing.dflash.empty()) return linked({});
  std::string fault;
  for (const link::Drafters with : {link::Drafters{true, true}, {true, false}, {false, true}}) try {
    link::Program program = linked(with);
    if (options.notice && !fault.empty()) options.notice(fault + "; going on without this drafter");
    return program;
  } catch (const Error& error) {
    // What merely lay beside the model must not keep it from running; what was asked for is wrong without it too.
    if (options.draft.asks_for_drafter() || error.kind == ErrorKind::usage) throw;
    if (fault.empty()) fault = error.message();
  }
  link::Program program = linked({});
  if (options.notice) options.notice(fault + "; going on without drafters");
  return program;
}

Parts open_parts(const ModelOptions& options) {
  link::Program program = open_program(options);
  options.begin_stage("tokenizer");
  const std::string& folder = options.folder;
  const bool per_layer_embeddings = program.graph->shape.ple_width > 0;
  return {.program = std::move(program), .tokenizer = open_tokenizer(folder),
          .chat_template = text::choose_template(folder, per_layer_embeddings),
          .defaults = decode::read_generation_defaults(folder),
          .image_tokens = image_tokens_of(options),
          .make_vocabulary = [](const text::Tokenizer& tokenizer) { return std::make_shared<const text::Vocabulary>(tokenizer); },
          .make_call_vocabulary = text::call_vocabulary};
}

}  // namespace lapidary::engine
