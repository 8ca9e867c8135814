// Soft tokens in a text: where a picture, a frame of a video or a sound is, rows that a tower made of it stand for embeddings.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/shape.hpp"

namespace lapidary::decode {

// The places of one. Its tokens in the text are those that announce it, and say nothing about what it shows.
struct SoftBlock {
  std::int32_t begin = 0, end = 0;          // positions
  bool is_image = false;                    // or a frame: models may look ahead in those, not in sounds
  std::string content{};                    // a hash of what the tower took: where it is the same, the soft tokens are

  bool operator==(const SoftBlock&) const = default;
};

// What a prompt has of them.
struct SoftTokens {
  std::span<const SoftBlock> blocks{};             // of the whole text, in order
  std::span<const std::span<const float>> rows{};  // by block: [end - begin, hidden], there when the turn that reads it begins
};

// How far two texts are the same whose first `length` tokens are.
std::int32_t common_length(std::int32_t length, std::span<const SoftBlock> a, std::span<const SoftBlock> b);

// The blocks that have begun before `length`.
std::span<const SoftBlock> blocks_before(std::span<const SoftBlock> blocks, std::int32_t length);

// Whether each of its rows sees all of the block.
bool sees_all(const SoftBlock& block, const graph::Shape& shape);

// Such a block is computed, kept and forgotten as a whole. The one that a text of this length would end inside of; null = none.
const SoftBlock* split_block(std::span<const SoftBlock> blocks, std::int32_t length, const graph::Shape& shape);
// So long is what of it can be kept.
std::int32_t whole_length(std::span<const SoftBlock> blocks, std::int32_t length, const graph::Shape& shape);

}  // namespace lapidary::decode
