// Beginnings of texts that have been computed, to go on from with another text: their tokens and K/V, in memory that is reserved once.
// A hit changes no byte of what follows, for a row depends on its own text alone.
//
// A snapshot holds the rings of the sliding layers as they were when it was taken, and is good for every length that they still reach
// back to: as many positions as a chunk has. What layers keep for ever it holds from where it leaves the snapshot it goes on from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/session.hpp"

namespace lapidary::decode {

class PrefixCache {
 public:
  // `program` must outlive it. With a budget of 0 it keeps nothing.
  PrefixCache(const link::Program& program, std::size_t budget_bytes);
  ~PrefixCache();

  // Makes the session the longest beginning of `tokens` that is kept, but for the last token, which is always computed. `space`: texts
  // of different ones do not know of each other; `soft`: the soft tokens among them. Returns the length.
  std::int32_t restore(std::string_view space, std::span<const std::int32_t> tokens, Session& session, std::span<const SoftBlock> soft = {});
  // Keeps what the session holds now, unless it is there. Who was not used for longest has to go.
  void store(std::string_view space, Session& session);

  std::size_t used_bytes() const { return (block_count_ - free_blocks_.size()) * kBlockBytes; }
  std::size_t budget_bytes() const { return block_count_ * kBlockBytes; }
  std::int64_t evictions() const { return evictions_; }

 private:
  static constexpr std::size_t kBlockBytes = 64 << 10;
  struct Snapshot;

  // How far each snapshot of the space agrees with the tokens.
  void match(std::string_view space, std::span<const std::int32_t> tokens, std::span<const SoftBlock> soft);
  bool reaches(const Snapshot& snapshot, std::int32_t length) const;
  void use(Snapshot* snapshot);
  bool make_room(std::size_t blocks, const Snapshot* spared);

  // Runs of bytes in a session's block: K/V of positions begin..end where layers keep them all, rings of the first `length`.
  template <class Visit>
  void for_each_kept(std::int32_t begin, std::int32_t end, Visit&& visit) const;
  template <class Visit>
  void for_each_ring(std::int32_t length, Visit&& visit) const;

  const link::Program& program_;
  const std::size_t block_count_;
  const std::unique_ptr<std::byte[]> memory_;  // [block_count, kBlockBytes], touched by use
  std::vector<std::uint32_t> free_blocks_;
  std::list<Snapshot> snapshots_;              // each behind the one that it goes on from
  std::uint64_t uses_ = 0;
  std::int64_t evictions_ = 0;
};

}  // namespace lapidary::decode
