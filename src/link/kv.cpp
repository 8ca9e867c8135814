#include "link/kv.hpp"

#include <cassert>
#include <cstring>

#include "numeric/bf16.hpp"

namespace lapidary::link {

void KvFormat::widen(const std::byte* head, std::span<float> out) const {
  if (*this == kKvF32) {
    std::memcpy(out.data(), head, out.size_bytes());
    return;
  }
  assert(*this == kKvBf16);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, head + i * sizeof bits, sizeof bits);
    out[i] = numeric::from_bf16(bits);
  }
}

}  // namespace lapidary::link
