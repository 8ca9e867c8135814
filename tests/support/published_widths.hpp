#pragma once

#include <vector>

namespace lapidary::test {

// Inputs of all products in E2B, E4B, 12B, 26B-A4B and 31B: hidden sizes, heads * head_dim, intermediate sizes, experts
// and per-layer inputs; and those of the small test models.
inline const std::vector<int> kPublishedWidths = {1536, 2560,  3840,  2816,  5376, 2048,  4096, 8192, 16384,
                                           6144, 12288, 10240, 15360, 2112, 21504, 704,  256};
inline const std::vector<int> kSmallWidths = {32, 64, 96, 128, 160, 192};

}  // namespace lapidary::test
