// The two hashes of a tokenizer: piece text to id while it is read, pair of ids to merge while it encodes. Open addressing,
// at most half full.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace lapidary::text {

// Seeded, so that no file can be written whose entries all fall into one place.
class Hash {
 public:
  explicit Hash(std::uint64_t seed = random_seed()) : seed_(seed) {}
  std::uint64_t seed() const { return seed_; }

  std::uint64_t operator()(std::uint64_t word) const { return mix(word ^ seed_, kOdd); }

  std::uint64_t operator()(std::string_view text) const {
    const char* at = text.data();
    std::size_t left = text.size();
    std::uint64_t hash = seed_ ^ left;
    for (; left > 8; at += 8, left -= 8) hash = mix(hash ^ load<std::uint64_t>(at), kOdd);
    std::uint64_t tail = 0;
    if (left >= 4) {
      tail = load<std::uint32_t>(at) | std::uint64_t{load<std::uint32_t>(at + left - 4)} << 32;
    } else if (left > 0) {
      const auto byte = [at](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(at[i])}; };
      tail = byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16;
    }
    return mix(hash ^ tail, kOdd);
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;

  template <class T>
  static T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  static std::uint64_t random_seed() { return std::random_device{}() | std::uint64_t{std::random_device{}()} << 32; }

  std::uint64_t seed_;
};

// Keeps views: the text must outlive it.
class PieceIndex {
 public:
  explicit PieceIndex(std::size_t pieces) : slots_(std::bit_ceil(2 * pieces + 2)) {}

  // False when the text is there already.
  bool insert(std::string_view text, std::int32_t id) {
    Slot& slot = slots_[place_of(text)];
    if (slot.id >= 0) return false;
    slot = {text.data(), static_cast<std::uint32_t>(text.size()), id};
    return true;
  }
  // -1 when it is not there.
  std::int32_t find(std::string_view text) const { return slots_[place_of(text)].id; }

  // Many at once, up to kMost: their slots and texts come from memory together instead of one after the other.
  static constexpr std::size_t kMost = 256;
  void find(std::span<const std::string_view> texts, std::span<std::int32_t> ids) const {
    std::array<std::size_t, kMost> places;
    for (std::size_t i = 0; i < texts.size(); ++i) __builtin_prefetch(&slots_[places[i] = first_place_of(texts[i])]);
    for (std::size_t i = 0; i < texts.size(); ++i) __builtin_prefetch(slots_[places[i]].text);
    for (std::size_t i = 0; i < texts.size(); ++i) ids[i] = slots_[place_from(places[i], texts[i])].id;
  }

 private:
  struct Slot {
    const char* text = nullptr;
    std::uint32_t bytes = 0;
    std::int32_t id = -1;
  };

  std::size_t first_place_of(std::string_view text) const { return hash_(text) & (slots_.size() - 1); }
  std::size_t place_of(std::string_view text) const { return place_from(first_place_of(text), text); }
  std::size_t place_from(std::size_t place, std::string_view text) const {
    while (slots_[place].id >= 0 && std::string_view(slots_[place].text, slots_[place].bytes) != text)
      place = (place + 1) & (slots_.size() - 1);
    return place;
  }

  Hash hash_;
  std::vector<Slot> slots_;
};

struct Merge {
  std::int32_t left = -1, right = -1;
  std::uint32_t rank = 0;   // the lower, the earlier
  std::int32_t result = -1;
};

// The place of a pair's merge, or an empty one. slots: a power of two of them, not all taken.
inline std::size_t place_of(std::span<const Merge> slots, Hash hash, std::int32_t left, std::int32_t right) {
  const std::size_t mask = slots.size() - 1;
  const auto key = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  std::size_t place = hash(key) & mask;
  while (slots[place].left >= 0 && (slots[place].left != left || slots[place].right != right)) place = (place + 1) & mask;
  return place;
}

}  // namespace lapidary::text
