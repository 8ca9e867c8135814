// Drafts by prompt lookup: what followed the last tokens where they occurred before, or where a predicted text has them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "decode/draft.hpp"

namespace lapidary::decode {

// Where each n-gram of a growing text ended last: a hash, at most half full, whose keys are the text itself. In every call
// `tokens` is that text; an end is the number of tokens up to it. Pushes are undone in reverse order.
class NGrams {
 public:
  NGrams(std::int32_t n, std::int32_t capacity_tokens);
  static std::size_t memory_bytes(std::int32_t capacity_tokens);

  std::int32_t n() const { return n_; }

  // 0 = nowhere. ngram: [n]
  std::int32_t last_end(const std::int32_t* tokens, const std::int32_t* ngram) const {
    return ends_[place_of(tokens, ngram)];
  }

  void push(const std::int32_t* tokens, std::int32_t end);
  void pop(const std::int32_t* tokens, std::int32_t end);

 private:
  std::size_t place_of(const std::int32_t* tokens, const std::int32_t* ngram) const;

  std::int32_t n_;
  std::vector<std::int32_t> ends_;      // by hash; 0 = free
  std::vector<std::int32_t> previous_;  // by end: where the same n-gram ended before, 0 = nowhere
};

// Takes the longest n-gram at the end of the history that occurred before and drafts what followed its latest occurrence. A text
// that was predicted is looked at first: who gives one knows what is to come. Drafts that reach the end of the history go on with
// themselves: a repetition continues.
//
// The history may grow, shrink or be another one from call to call. A new tail is noticed by comparing backwards with a
// copy, until kAgreement tokens in a row are the same. A change hidden behind those can make the index miss an occurrence,
// never invent one: what it finds is compared with the history itself, and where that fails, everything is.
class Lookup final : public DraftSource {
 public:
  // Occurrences that end after the first `capacity_tokens` of a history are not found.
  explicit Lookup(std::int32_t capacity_tokens);
  static std::size_t memory_bytes(std::int32_t capacity_tokens);  // without a prediction, which takes no more than as much again

  std::string_view name() const override { return "lookup"; }
  // Of a prediction the first `capacity_tokens` are looked at.
  void begin_text(std::span<const std::int32_t> prediction) override;
  Drafts propose(std::span<const std::int32_t> history, int most) override;

 private:
  static constexpr std::int32_t kAgreement = 32;

  // Indexes all but the last token, from the first on that is new or changed.
  void follow(std::span<const std::int32_t> history, std::int32_t agreement);
  // Where the longest n-gram occurred before, as an end and a length; 0 = nowhere.
  struct Match {
    std::int32_t end = 0, n = 0;
    bool predicted = false;  // in the prediction, not in the history
  };
  Match find(std::span<const std::int32_t> history) const;

  // 8, 4 and 2 tokens: on edited sources 3.19 tokens a round, where 4, 3 and 2 had 3.08, because 8 tell more copies of a
  // line apart. A single token would draft in most rounds, and wrongly in most of them.
  static constexpr std::size_t kLengths = 3;
  using AllNGrams = std::array<NGrams, kLengths>;
  static AllNGrams all_ngrams(std::int32_t capacity_tokens);
  AllNGrams ngrams_;
  std::vector<std::int32_t> tokens_;     // [capacity]
  std::int32_t indexed_ = 0;             // of them
  std::vector<std::int32_t> prediction_{};
  AllNGrams predicted_ = all_ngrams(0);
  std::array<std::int32_t, kMaxDrafts> drafts_{};
};

}  // namespace lapidary::decode
