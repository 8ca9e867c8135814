#include "text/tokenizer_bpe.hpp"

#include <algorithm>
#include <functional>

#include "text/utf8.hpp"

namespace lapidary::text {
namespace {

constexpr std::uint32_t kNoRank = UINT32_MAX;
constexpr char32_t kSpaceScalar = 0x2581;

}  // namespace

void BpeEncoder::encode(std::string_view text) {
  unsigned char last = 0;
  while (!text.empty()) {
    Utf8Step step = utf8_step(text);
    const bool space = step.scalar == kSpaceScalar || step.scalar == ' ';
    const auto first = static_cast<unsigned char>(space ? ' ' : text[0]);
    if (!word_.empty() && tables_.may_cut(last, first)) finish_word();
    const std::int32_t id = step.state == Utf8::whole ? tables_.scalar(space ? U' ' : step.scalar) : -1;
    if (id >= 0) {
      add(id);
    } else {
      for (const char byte : text.substr(0, step.bytes)) add(tables_.byte(byte));
    }
    last = static_cast<unsigned char>(space ? ' ' : text[step.bytes - 1]);
    text.remove_prefix(step.bytes);
  }
  finish_word();
}

void BpeEncoder::add(std::int32_t id) {
  const auto place = static_cast<std::uint32_t>(word_.size());
  word_.push_back({id, place - 1, place + 1, kNoRank, -1});
}

// Looks up the merge of a symbol with the one after it and queues it.
void BpeEncoder::rank_pair(std::uint32_t place) {
  Symbol& symbol = word_[place];
  symbol.rank = kNoRank;
  if (symbol.after >= word_.size()) return;
  if (const Merge* merge = tables_.merge(symbol.id, word_[symbol.after].id)) {
    symbol.rank = merge->rank;
    symbol.result = merge->result;
    queue_.push_back(std::uint64_t{merge->rank} << 32 | place);
  }
}

// Merges the pair of lowest rank, the leftmost among equals, until none is left.
void BpeEncoder::finish_word() {
  const auto size = static_cast<std::uint32_t>(word_.size());
  for (std::uint32_t place = 0; place < size; ++place) rank_pair(place);
  std::ranges::make_heap(queue_, std::greater{});
  while (!queue_.empty()) {
    std::ranges::pop_heap(queue_, std::greater{});
    const auto rank = static_cast<std::uint32_t>(queue_.back() >> 32);
    const auto place = static_cast<std::uint32_t>(queue_.back());
    queue_.pop_back();
    Symbol& symbol = word_[place];
    if (symbol.rank != rank) continue;  // a neighbour has changed since; a rank belongs to one pair of ids
    Symbol& absorbed = word_[symbol.after];
    absorbed.rank = kNoRank;
    symbol.id = symbol.result;
    symbol.after = absorbed.after;
    if (symbol.after < size) word_[symbol.after].before = place;
    for (const std::uint32_t changed : {place, symbol.before}) {
      if (changed >= size) continue;
      const std::size_t queued = queue_.size();
      rank_pair(changed);
      if (queue_.size() > queued) std::ranges::push_heap(queue_, std::greater{});
    }
  }
  for (std::uint32_t place = 0; place < size; place = word_[place].after) ids_.push_back(word_[place].id);
  word_.clear();
}

}  // namespace lapidary::text
