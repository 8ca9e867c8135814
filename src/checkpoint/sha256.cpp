#include "checkpoint/sha256.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "checkpoint/error.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#elif defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace lapidary {

namespace {

using State = std::array<std::uint32_t, 8>;
constexpr std::size_t kBlock = Sha256::kBlock;

alignas(16) constexpr std::uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// data: [blocks, kBlock]
void add_portable(State& state, const std::byte* data, std::size_t blocks) {
  for (; blocks > 0; --blocks, data += kBlock) {
    std::uint32_t w[64];
    std::memcpy(w, data, kBlock);
    for (int i = 0; i < 16; ++i) w[i] = __builtin_bswap32(w[i]);
    for (int i = 16; i < 64; ++i) {
      const std::uint32_t x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + w[i - 7] +
             (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      const std::uint32_t one =
          h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
      const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    const State sum = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += sum[i];
  }
}

#if defined(__aarch64__)

__attribute__((target("+crypto"))) void add_by_instructions(State& state, const std::byte* data, std::size_t blocks) {
  uint32x4_t abcd = vld1q_u32(&state[0]), efgh = vld1q_u32(&state[4]);
  for (; blocks > 0; --blocks, data += kBlock) {
    const uint32x4_t abcd_before = abcd, efgh_before = efgh;
    uint32x4_t w[4];  // the last 16 words of the schedule, from w[i % 4] on
    for (int i = 0; i < 4; ++i)
      w[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(data) + 16 * i)));
    for (int i = 0; i < 16; ++i) {
      const uint32x4_t terms = vaddq_u32(w[i % 4], vld1q_u32(kRounds + 4 * i)), abcd_old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, terms);
      efgh = vsha256h2q_u32(efgh, abcd_old, terms);
      w[i % 4] = vsha256su1q_u32(vsha256su0q_u32(w[i % 4], w[(i + 1) % 4]), w[(i + 2) % 4], w[(i + 3) % 4]);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(&state[0], abcd);
  vst1q_u32(&state[4], efgh);
}

bool has_instructions() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_SHA2;
#else
  return true;  // every Apple processor
#endif
}

#elif defined(__x86_64__)

__attribute__((target("sha,sse4.1"))) void add_by_instructions(State& state, const std::byte* data, std::size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the halves as a, b, e, f and c, d, g, h, the first in the highest lane.
  __m128i abef = _mm_set_epi32(state[0], state[1], state[4], state[5]);
  __m128i cdgh = _mm_set_epi32(state[2], state[3], state[6], state[7]);
  for (; blocks > 0; --blocks, data += kBlock) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];  // the last 16 words of the schedule, from w[i % 4] on
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), big_endian);
    for (int i = 0; i < 16; ++i) {
      const __m128i terms = _mm_add_epi32(w[i % 4], _mm_load_si128(reinterpret_cast<const __m128i*>(kRounds) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, terms);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(terms, 0x0e));
      const __m128i seven_ago = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
      w[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), seven_ago),
                                      w[(i + 3) % 4]);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  std::uint32_t feba[4], hgdc[4];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(feba), abef);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(hgdc), cdgh);
  state = {feba[3], feba[2], hgdc[3], hgdc[2], feba[1], feba[0], hgdc[1], hgdc[0]};
}

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

#else

constexpr auto add_by_instructions = add_portable;
bool has_instructions() { return false; }

#endif

}  // namespace

Sha256::Sha256(Sha256Code code) : add_(code == Sha256Code::portable ? add_portable : add_by_instructions) {}

void Sha256::add_blocks(std::span<const std::byte> bytes) {
  add_(state_, bytes.data(), bytes.size() / kBlock);
  size_bytes_ += bytes.size();
}

std::string Sha256::finish(std::span<const std::byte> rest) {
  add_blocks(rest.first(rest.size() / kBlock * kBlock));
  const auto tail = rest.last(rest.size() % kBlock);
  size_bytes_ += tail.size();
  // A one bit, zeros up to the end of a block, and the size in bits as its last 8 bytes.
  std::array<std::byte, 2 * kBlock> last{};
  std::ranges::copy(tail, last.begin());
  last[tail.size()] = std::byte{0x80};
  const std::size_t end = tail.size() < kBlock - 8 ? kBlock : 2 * kBlock;
  for (std::size_t i = 0; i < 8; ++i) last[end - 1 - i] = static_cast<std::byte>(size_bytes_ * 8 >> (8 * i));
  add_(state_, last.data(), end / kBlock);

  std::string hex;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  return hex;
}

Sha256Code fastest_sha256() { return has_instructions() ? Sha256Code::instructions : Sha256Code::portable; }

std::string sha256_hex(std::span<const std::byte> bytes, Sha256Code code) { return Sha256(code).finish(bytes); }

std::string sha256_of_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))  // opening a pipe or a device could wait for ever
    fail(ErrorKind::io, path, error ? "cannot be opened: " + error.message() : "expected a regular file, got another kind");
  std::ifstream file(path, std::ios::binary);
  std::vector<char> chunk(16384 * kBlock);
  const auto bytes = std::as_bytes(std::span(chunk));
  Sha256 sha256;
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()))) sha256.add_blocks(bytes);
  if (!file.eof()) fail(ErrorKind::io, path, std::string("cannot be read: ") + std::strerror(errno));
  return sha256.finish(bytes.first(static_cast<std::size_t>(file.gcount())));
}

}  // namespace lapidary
