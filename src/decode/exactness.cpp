#include "decode/exactness.hpp"

#include <algorithm>
#include <cstring>

namespace lapidary::decode {
namespace {

constexpr std::int32_t kPromptTokens = 24;

std::uint64_t hash_of(const std::byte* bytes, std::size_t count) {
  std::uint64_t hash = 0x9e3779b97f4a7c15;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  };
  for (; count >= sizeof(std::uint64_t); bytes += sizeof(std::uint64_t), count -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    mix(word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes, count);
  mix(rest);
  return hash;
}

// What a row's outputs are; of a choice only the token, the rest is room to work in. A row of features has those of other layers too.
std::uint64_t hash_of_row(const link::StepResult& result, std::size_t row) {
  if (const graph::Dims& d = *result.step.dims; result.step.op == graph::Op::keep_tap)
    return hash_of(result.out[0].row(row) + sizeof(float) * d.offset, sizeof(float) * d.n[0]);
  const auto results = static_cast<std::size_t>(info_of(result.step.op).results);
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < results; ++i)
    if (const auto& out = result.out[i]; out.data) hash = hash * 31 + hash_of(out.row(row), out.row_bytes);
  return hash;
}

// Token ids that spread over the vocabulary.
std::int32_t some_token(std::int64_t i, std::int32_t vocab) { return static_cast<std::int32_t>((i * 7919 + 13) % vocab); }

class Check {
 public:
  Check(Session& session, std::int32_t positions) : session_(session), hashes_(positions) {
    for (std::int32_t i = 0; i < kPromptTokens + positions; ++i) text_.push_back(some_token(i, session.vocab()));
  }

  Exactness run() {
    alone();
    together();
    session_.rollback(0);
    return result_;
  }

 private:
  void begin() {
    session_.rollback(0);
    session_.prefill(std::span(text_).first(kPromptTokens));
  }

  // What an accept leaves belongs to no single row.
  static bool belongs_to_rows(const graph::Step& step) { return step.op != graph::Op::accept; }

  void alone() {
    begin();
    for (auto& hashes : hashes_) {
      const link::StepObserver observe = [&](const link::StepResult& result) {
        if (belongs_to_rows(result.step)) hashes.push_back(hash_of_row(result, 0));
      };
      session_.forward({&text_[session_.length()], 1}, &observe);
      ++result_.positions;
    }
  }

  void together() {
    const int widest = session_.widest_round();
    if (widest < 2) return;
    begin();
    for (int block = 0; session_.length() < static_cast<std::int32_t>(text_.size()) && !result_.difference; ++block) {
      const std::int32_t first = session_.length(), left = static_cast<std::int32_t>(text_.size()) - first;
      const int width = std::min(2 + block % (widest - 1), left);
      // Every third block ends in drafts that will not do.
      const int right = block % 3 == 2 ? (width + 1) / 2 : width;
      std::vector<std::int32_t> tokens(text_.begin() + first, text_.begin() + first + width);
      for (int i = right; i < width; ++i) tokens[i] = (tokens[i] + 1) % session_.vocab();
      std::size_t at = 0;
      const link::StepObserver observe = [&](const link::StepResult& result) {
        if (!belongs_to_rows(result.step)) return;
        for (int row = 0; row < right; ++row) compare(result, row, width, first + row, at);
        ++at;
      };
      session_.forward(tokens, &observe);
      session_.rollback(first + right);
      ++result_.blocks;
    }
  }

  void compare(const link::StepResult& result, int row, int width, std::int32_t position, std::size_t at) {
    ++result_.values;
    if (result_.difference || hash_of_row(result, row) == hashes_[position - kPromptTokens][at]) return;
    result_.difference = {&result.step, width, row, position};
  }

  Session& session_;
  std::vector<std::int32_t> text_;
  std::vector<std::vector<std::uint64_t>> hashes_;  // by forced position and step
  Exactness result_;
};

}  // namespace

Exactness check_exactness(Session& session, std::int32_t positions) { return Check(session, positions).run(); }

std::string describe(const Exactness::Difference& difference) {
  std::string text(name_of(difference.step->op));
  if (difference.step->layer != graph::kOutsideLayers) text += " of layer " + std::to_string(difference.step->layer);
  return text + " at width " + std::to_string(difference.width) + ", row " + std::to_string(difference.row) + ", position " +
         std::to_string(difference.position);
}

}  // namespace lapidary::decode
