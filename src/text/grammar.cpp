#include "text/grammar.hpp"

#include <algorithm>
#include <cassert>

#include "text/grammar_json.hpp"
#include "text/grammar_vocabulary.hpp"
#include "text/schema.hpp"

namespace lapidary::text {
namespace {

// Allows the tokens of the tree along which a reading survives.
void allow(const TokenTree& tree, Walk& walk, TokenMask mask) {
  for (std::uint32_t i = 0; i + 1 < tree.nodes.size();) {
    const TokenTree::Node& node = tree.nodes[i];
    if (!walk.step(node.depth - 1u, node.byte)) {
      i = node.end;
      continue;
    }
    ++i;
    for (std::uint32_t t = node.first_token; t < tree.nodes[i].first_token; ++t) set_bit(mask, tree.tokens[t], true);
  }
}

bool read(Walk& walk, std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!walk.step(i, static_cast<std::uint8_t>(bytes[i]))) return false;
  }
  return !bytes.empty();
}

}  // namespace

Grammar::Grammar(std::shared_ptr<const Vocabulary> vocabulary, Automaton automaton)
    : vocabulary_(std::move(vocabulary)), automaton_(std::move(automaton)) {}

std::shared_ptr<const Grammar> Grammar::json(std::shared_ptr<const Vocabulary> vocabulary) {
  AutomatonBuilder builder;
  const StateId any = JsonRules(builder, Notation::json).any();
  return std::make_shared<const Grammar>(std::move(vocabulary), builder.finish(any));
}

std::shared_ptr<const Grammar> Grammar::schema(const Tokenizer& tokenizer, const Value& schema) {
  return Grammar::schema(std::make_shared<const Vocabulary>(tokenizer), schema);
}

std::shared_ptr<const Grammar> Grammar::schema(std::shared_ptr<const Vocabulary> vocabulary, const Value& schema) {
  return std::make_shared<const Grammar>(std::move(vocabulary), compile_schema(schema));
}

std::shared_ptr<const Grammar> Grammar::calls(const Tokenizer& tokenizer, const Value& tools) {
  return calls(call_vocabulary(tokenizer), tools);
}

std::shared_ptr<const Grammar> Grammar::calls(std::shared_ptr<const Vocabulary> vocabulary, const Value& tools) {
  return std::make_shared<const Grammar>(std::move(vocabulary), compile_calls(tools));
}

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), walk_(std::make_shared<Walk>(grammar_->automaton())) {
  walk_->get(readings_);
}

void GrammarState::fill_mask(TokenMask mask, std::span<const std::int32_t> stop_ids) const {
  const Vocabulary& vocabulary = grammar_->vocabulary();
  const Automaton& automaton = grammar_->automaton();
  assert(mask.size() >= mask_words(vocabulary.size()));
  std::ranges::fill(mask, 0u);

  // Inside a string nearly all tokens are plain and need no walk; readings elsewhere go through all tokens.
  std::uint32_t characters = 0;
  for (const Reading& top : readings_.tops)
    characters = std::max<std::uint32_t>(characters, automaton.states[top.state].characters_left);
  if (characters > 0) std::ranges::copy(vocabulary.plain(characters), mask.begin());
  if (walk_->begin(readings_, true)) allow(vocabulary.not_plain(), *walk_, mask);
  if (walk_->begin(readings_, false)) allow(vocabulary.all(), *walk_, mask);
  for (const std::int32_t id : stop_ids) set_bit(mask, id, complete());
}

bool GrammarState::allows(std::int32_t id) const {
  walk_->begin(readings_);
  return read(*walk_, grammar_->vocabulary().bytes(id));
}

bool GrammarState::accept(std::int32_t id) {
  if (grammar_->vocabulary().is_special(id)) return complete();
  walk_->begin(readings_);
  if (!read(*walk_, grammar_->vocabulary().bytes(id))) return false;
  walk_->get(readings_);
  return true;
}

}  // namespace lapidary::text
