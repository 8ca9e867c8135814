// What varies from run to run: the rows of a prompt, the state of the rounds, how tokens are chosen.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "graph/graph.hpp"

namespace lapidary::graph {

inline constexpr std::int32_t kPadToken = 0;  // what stands in the place of a soft token wherever one of the vocabulary is wanted

struct Row {
  std::int32_t slot = 0;       // session slot: whose K/V
  std::int32_t position = 0;   // absolute
  std::int32_t token = 0;
  std::int32_t block_end = 0;  // last position visible to this row in sliding layers: its own for text
  std::int32_t soft = -1;      // >= 0: a soft token, this row of Chunk::soft; `token` is kPadToken then
  std::int32_t begin = 0;      // first position visible to this row: later than 0 where a drafter has no context before it
};

// How a token is chosen from a row's logits, the same for all rows of a request. The steps run in this order: suppressed,
// bias, penalties, mask, temperature, top-k, top-p, min-p, choice.
struct Sampling {
  std::span<const std::int32_t> suppressed{};                     // never chosen
  std::span<const std::pair<std::int32_t, float>> bias{};         // added to the logit
  float repetition = 1.0f;                                        // x / r if x > 0, else x * r, once per distinct token
  float presence = 0.0f, frequency = 0.0f;                        // minus presence + count * frequency
  float temperature = 0.0f;                                       // 0 = the largest, ties to the lower id
  std::int32_t top_k = 0;                                         // 0 = all
  float top_p = 1.0f, min_p = 0.0f;
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;                                       // number of the completion

  bool penalises() const { return repetition != 1.0f || presence != 0.0f || frequency != 0.0f; }
};

// What only one row knows when its token is chosen.
struct SelectRow {
  std::int64_t index = 0;                       // of the token to choose among the generated ones: the key of its noise
  std::span<const std::int32_t> drafted{};      // tokens between the counted history and this row
  std::span<const std::uint32_t> mask{};        // one bit per token, 1 = allowed; empty = all
};

// How the tokens of some rows are chosen.
struct Selection {
  Sampling sampling{};
  std::span<const std::int32_t> counts{};       // [vocab]: how often each token occurred; empty when nothing penalises
  std::span<const SelectRow> rows{};
};

// How a request chooses its tokens; null stands for the largest logit.
struct Request {
  Sampling sampling{};
  std::span<std::int32_t> counts{};             // [vocab] up to the bonus token, kept so by `accept`; empty when nothing penalises
  std::span<const std::uint32_t> masks{};       // [rows, words of 32 tokens]: one for each row of the round; empty = all allowed
};

// The rounds of one session: read and updated by the graph. The host writes it only between runs.
struct RoundState {
  std::int32_t length = 0;     // L: positions with valid K/V
  std::int32_t bonus = 0;      // the token at position L: chosen, its K/V not computed
  std::int64_t emitted = 0;    // tokens chosen so far: the index of the one that row 0 chooses
  std::int32_t drafted = 0;    // k
  std::array<std::int32_t, kMaxVerifyRows - 1> drafts{};
  std::int32_t accepted = 0;   // by the last round

  std::span<const std::int32_t> draft_tokens() const { return std::span(drafts).first(drafted); }
};

// What a round gave; the next one does not change it.
struct RoundResult {
  std::int32_t accepted = 0;
  std::array<std::int32_t, kMaxVerifyRows> tokens{};  // chosen by rows 0..accepted

  std::span<const std::int32_t> chosen() const { return std::span(tokens).first(accepted + 1); }
};

// Rows of a prompt.
struct Chunk {
  std::span<const Row> rows{};
  std::int32_t output_begin = 0;         // the output window: rows whose logits are wanted
  std::int32_t output_count = 0;
  std::span<const float> soft{};         // [soft tokens, hidden]: what a tower made, as it enters the residual stream
};

}  // namespace lapidary::graph
