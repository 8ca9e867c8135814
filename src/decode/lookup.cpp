#include "decode/lookup.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace lapidary::decode {

namespace {

std::size_t places_for(std::int32_t tokens) { return std::bit_ceil(2 * static_cast<std::size_t>(tokens) + 2); }

}  // namespace

std::size_t NGrams::memory_bytes(std::int32_t capacity_tokens) {
  return (places_for(capacity_tokens) + static_cast<std::size_t>(capacity_tokens) + 1) * sizeof(std::int32_t);
}

std::size_t Lookup::memory_bytes(std::int32_t capacity_tokens) {
  return sizeof(Lookup) + kLengths * NGrams::memory_bytes(capacity_tokens) + static_cast<std::size_t>(capacity_tokens) * sizeof(std::int32_t);
}

NGrams::NGrams(std::int32_t n, std::int32_t capacity_tokens)
    : n_(n), ends_(places_for(capacity_tokens)),
      previous_(static_cast<std::size_t>(capacity_tokens) + 1) {}

std::size_t NGrams::place_of(const std::int32_t* tokens, const std::int32_t* ngram) const {
  std::uint64_t hash = 0;
  for (int i = 0; i < n_; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(ngram[i])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  const std::size_t mask = ends_.size() - 1;
  std::size_t place = hash & mask;
  while (ends_[place] > 0 && !std::equal(ngram, ngram + n_, tokens + ends_[place] - n_)) place = (place + 1) & mask;
  return place;
}

void NGrams::push(const std::int32_t* tokens, std::int32_t end) {
  if (end < n_) return;
  std::int32_t& last = ends_[place_of(tokens, tokens + end - n_)];
  previous_[end] = last;
  last = end;
}

// A place may become free again: what came after it, and may have passed over it, has gone before.
void NGrams::pop(const std::int32_t* tokens, std::int32_t end) {
  if (end >= n_) ends_[place_of(tokens, tokens + end - n_)] = previous_[end];
}

Lookup::AllNGrams Lookup::all_ngrams(std::int32_t capacity_tokens) {
  return {NGrams(8, capacity_tokens), NGrams(4, capacity_tokens), NGrams(2, capacity_tokens)};
}

Lookup::Lookup(std::int32_t capacity_tokens) : ngrams_(all_ngrams(capacity_tokens)), tokens_(static_cast<std::size_t>(capacity_tokens)) {}

// All but the last token are indexed: something must follow.
void Lookup::begin_text(std::span<const std::int32_t> prediction) {
  const auto known = prediction.first(std::min(prediction.size(), tokens_.size()));
  prediction_ = {known.begin(), known.end()};
  const auto size = static_cast<std::int32_t>(prediction_.size());
  predicted_ = all_ngrams(size);
  for (std::int32_t end = 1; end < size; ++end)
    for (NGrams& ngrams : predicted_) ngrams.push(prediction_.data(), end);
}

Drafts Lookup::propose(std::span<const std::int32_t> history, int most) {
  follow(history, kAgreement);
  Match match = find(history);
  if (!match.predicted && !std::equal(history.end() - match.n, history.end(), history.begin() + match.end - match.n)) {
    follow(history, std::numeric_limits<std::int32_t>::max());
    match = find(history);
  }
  if (match.n == 0) return {0, drafts_.data()};

  const auto after = (match.predicted ? std::span<const std::int32_t>(prediction_) : history).subspan(static_cast<std::size_t>(match.end));
  const int known = static_cast<int>(after.size()), count = std::clamp(most, 0, match.predicted ? std::min(known, kMaxDrafts) : kMaxDrafts);
  for (int i = 0; i < count; ++i) drafts_[i] = i < known ? after[i] : drafts_[i - known];
  return {count, drafts_.data()};
}

void Lookup::follow(std::span<const std::int32_t> history, std::int32_t agreement) {
  const auto wanted = static_cast<std::int32_t>(std::min(std::max<std::size_t>(history.size(), 1) - 1, tokens_.size()));
  std::int32_t same = std::min(wanted, indexed_);
  for (std::int32_t i = same - 1; i >= 0 && same - i <= agreement; --i)
    if (history[i] != tokens_[i]) same = i;

  for (; indexed_ > same; --indexed_)
    for (NGrams& ngrams : ngrams_) ngrams.pop(tokens_.data(), indexed_);
  while (indexed_ < wanted) {
    tokens_[indexed_] = history[indexed_];
    ++indexed_;
    for (NGrams& ngrams : ngrams_) ngrams.push(tokens_.data(), indexed_);
  }
}

Lookup::Match Lookup::find(std::span<const std::int32_t> history) const {
  for (std::size_t i = 0; i < kLengths; ++i) {
    const std::int32_t n = ngrams_[i].n();
    if (static_cast<std::int32_t>(history.size()) < n) continue;
    const std::int32_t* ngram = history.data() + history.size() - n;
    if (const std::int32_t end = predicted_[i].last_end(prediction_.data(), ngram); end > 0) return {end, n, true};
    if (const std::int32_t end = ngrams_[i].last_end(tokens_.data(), ngram); end > 0) return {end, n};
  }
  return {};
}

}  // namespace lapidary::decode
