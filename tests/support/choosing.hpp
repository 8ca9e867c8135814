// What the rows of a round choose their tokens from, and how: the sample kernel of a backend as one function.
#pragma once

#include "graph/row.hpp"
#include "support/random_settings.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

using Masks = std::vector<std::vector<std::uint32_t>>;

struct Choosing {
  FloatRows logits;
  IdRows lists{};                             // the tokens of the logits; none = all
  const graph::Sampling* sampling = nullptr;  // null = the largest logit
  Ids counts{};                               // [vocab]; none where nothing penalises
  Masks masks{};                              // none, one for all rows, or one for each
  std::int64_t emitted = 0;
  Ids drafts{};                               // row r comes after the first r
  int slot = 0;
  bool draft = false;                         // a draft step: one row, after all the drafts, which sees no mask
  bool block = false;                         // rows of a block, of which the first chooses nothing: they see neither drafts nor masks

  graph::SelectRow row(std::size_t r) const {
    const std::size_t before = draft ? drafts.size() : std::min(r, drafts.size());
    graph::SelectRow row{.index = emitted + static_cast<std::int64_t>(draft ? before : r),
                         .drafted = std::span(drafts).first(before)};
    if (!masks.empty() && !draft) row.mask = masks[masks.size() > 1 ? r : 0];
    return row;
  }
};

// The tokens that the rows choose. All that is not theirs stays as it is, which the function looks at itself.
using Choose = std::function<Ids(const Choosing& from)>;

// One row. With drafts before it and a mask it is the last of a round of such rows.
inline std::int32_t choose_one(const Choose& choose, const std::vector<float>& logits, const Ids& list,
                               const graph::Sampling& sampling, const graph::SelectRow& row = {}, const Ids& counts = {}) {
  const std::size_t rows = row.drafted.size() + 1;
  Choosing from{.logits = FloatRows(rows, logits), .sampling = &sampling, .counts = counts,
                .emitted = row.index - static_cast<std::int64_t>(row.drafted.size()),
                .drafts = {row.drafted.begin(), row.drafted.end()}};
  if (!list.empty()) from.lists.assign(rows, list);
  if (!row.mask.empty()) from.masks = {{row.mask.begin(), row.mask.end()}};
  return choose(from).back();
}

// The tokens chosen at the indices from 0 on. Nothing may penalise.
inline Ids choose_at_indices(const Choose& choose, int count, const std::vector<float>& logits, const Ids& list,
                             const graph::Sampling& sampling, const Masks& masks = {}) {
  Choosing from{.logits = FloatRows(count, logits), .sampling = &sampling, .masks = masks};
  if (!list.empty()) from.lists.assign(count, list);
  return choose(from);
}

// A round of random rows under random settings, each row with a list of its own where there are lists.
struct RandomRound : RandomSettings {
  int vocab;
  Choosing from;

  static RandomRound of_all(Random& random, int vocab) { return RandomRound(random, vocab, vocab, false); }
  static RandomRound of_lists(Random& random, int vocab) {
    const int listed = 1 + random.below(vocab);
    return RandomRound(random, vocab, listed, true);
  }

 private:
  RandomRound(Random& random, int vocab_size, int choices, bool lists)
      : RandomSettings(random, vocab_size, choices), vocab(vocab_size) {
    from = {.logits = {}, .sampling = &sampling, .counts = counts, .emitted = index, .drafts = drafted,
            .slot = random.below(3)};
    const bool coarse = random.chance(3), shares_mask = random.chance(3);  // coarse: many equal logits
    for (std::size_t r = 0; r <= drafted.size(); ++r) {
      if (lists) from.lists.push_back(random_ids(random, choices, vocab_size));
      auto& logits = from.logits.emplace_back();
      for (int i = 0; i < choices; ++i) {
        const double logit = random.uniform(-8, 8);
        const float nothing = lists && random.chance(2) ? kNaN : -kInfinity;
        logits.push_back(random.chance(40) ? nothing : static_cast<float>(coarse ? std::round(logit) : logit));
      }
      if (!lists) logits[random.below(choices)] = 9.0f;
      if (mask.empty() || (shares_mask && r > 0)) continue;
      from.masks.push_back(mask);
      for (std::uint32_t& word : from.masks.back()) word |= static_cast<std::uint32_t>(random.bits() & random.bits());
    }
  }
};

}  // namespace lapidary::test
