#include "decode/soft.hpp"

#include <algorithm>

namespace lapidary::decode {

std::int32_t common_length(std::int32_t length, std::span<const SoftBlock> a, std::span<const SoftBlock> b) {
  const auto [of_a, of_b] = std::ranges::mismatch(a, b);
  if (of_a != a.end()) length = std::min(length, of_a->begin);
  if (of_b != b.end()) length = std::min(length, of_b->begin);
  return length;
}

std::span<const SoftBlock> blocks_before(std::span<const SoftBlock> blocks, std::int32_t length) {
  const auto after = std::ranges::lower_bound(blocks, length, {}, &SoftBlock::begin);
  return blocks.first(static_cast<std::size_t>(after - blocks.begin()));
}

bool sees_all(const SoftBlock& block, const graph::Shape& shape) { return block.is_image && shape.bidirectional_images; }

const SoftBlock* split_block(std::span<const SoftBlock> blocks, std::int32_t length, const graph::Shape& shape) {
  const auto begun = blocks_before(blocks, length);
  return !begun.empty() && length < begun.back().end && sees_all(begun.back(), shape) ? &begun.back() : nullptr;
}

std::int32_t whole_length(std::span<const SoftBlock> blocks, std::int32_t length, const graph::Shape& shape) {
  const SoftBlock* split = split_block(blocks, length, shape);
  return split ? split->begin : length;
}

}  // namespace lapidary::decode
