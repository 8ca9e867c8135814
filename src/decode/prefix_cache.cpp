#include "decode/prefix_cache.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "link/slots.hpp"

namespace lapidary::decode {
namespace {

constexpr std::int32_t round_up_to_tile(std::int32_t position) { return (position + graph::kTile - 1) / graph::kTile * graph::kTile; }

// Bytes one after the other, in blocks that lie anywhere.
class BlockStream {
 public:
  BlockStream(std::byte* memory, std::size_t block_bytes, std::span<const std::uint32_t> blocks)
      : memory_(memory), block_bytes_(block_bytes), blocks_(blocks) {}

  void write(std::span<const std::byte> bytes) {
    each_piece(bytes.size(), [&](std::byte* place, std::size_t from, std::size_t count) { std::memcpy(place, bytes.data() + from, count); });
  }
  void read(std::span<std::byte> bytes) {
    each_piece(bytes.size(), [&](const std::byte* place, std::size_t from, std::size_t count) { std::memcpy(bytes.data() + from, place, count); });
  }

 private:
  template <class Visit>
  void each_piece(std::size_t size, Visit&& visit) {
    for (std::size_t done = 0; done < size;) {
      const std::size_t within = place_ % block_bytes_, count = std::min(size - done, block_bytes_ - within);
      visit(memory_ + blocks_[place_ / block_bytes_] * block_bytes_ + within, done, count);
      done += count;
      place_ += count;
    }
  }

  std::byte* const memory_;
  const std::size_t block_bytes_;
  const std::span<const std::uint32_t> blocks_;
  std::size_t place_ = 0;
};

}  // namespace

struct PrefixCache::Snapshot {
  std::string space;
  Snapshot* before = nullptr;        // it goes on from there, at `begin`; null: from nothing
  std::int32_t begin = 0;
  std::vector<std::int32_t> tokens{};  // from `begin` on
  std::vector<SoftBlock> soft{};     // all that have begun in the text up to here
  std::int32_t prompt_length = 0;    // positions before this were all computed as rows of a prompt
  link::SlotMarks marks{};           // how far the rings had been written
  std::vector<std::uint32_t> blocks{};  // K/V that layers keep, then rings
  std::uint64_t used = 0;            // when it was last
  int followers = 0;
  std::int32_t matched = 0;          // by the last match()

  std::int32_t end() const { return begin + static_cast<std::int32_t>(tokens.size()); }
};

PrefixCache::PrefixCache(const link::Program& program, std::size_t budget_bytes)
    : program_(program), block_count_(budget_bytes / kBlockBytes), memory_(new std::byte[block_count_ * kBlockBytes]) {
  for (std::size_t i = block_count_; i-- > 0;) free_blocks_.push_back(static_cast<std::uint32_t>(i));
}

PrefixCache::~PrefixCache() = default;

template <class Visit>
void PrefixCache::for_each_kept(std::int32_t begin, std::int32_t end, Visit&& visit) const {
  const std::int32_t first = begin / graph::kTile * graph::kTile, last = round_up_to_tile(end);
  const std::int32_t everything = round_up_to_tile(program_.plan.context_tokens);
  link::for_each_head(program_.plan.kv, [&](const link::KvPlacement& layer, std::size_t offset, std::size_t position_bytes) {
    if (layer.capacity == everything) visit(offset + position_bytes * static_cast<std::size_t>(first), position_bytes * static_cast<std::size_t>(last - first));
  });
}

template <class Visit>
void PrefixCache::for_each_ring(std::int32_t length, Visit&& visit) const {
  const std::int32_t everything = round_up_to_tile(program_.plan.context_tokens);
  link::for_each_head(program_.plan.kv, [&](const link::KvPlacement& layer, std::size_t offset, std::size_t position_bytes) {
    if (layer.capacity < everything) visit(offset, position_bytes * static_cast<std::size_t>(std::min(round_up_to_tile(length), layer.capacity)));
  });
}

void PrefixCache::match(std::string_view space, std::span<const std::int32_t> tokens, std::span<const SoftBlock> soft) {
  for (Snapshot& snapshot : snapshots_) {
    snapshot.matched = 0;
    if (snapshot.space != space) continue;
    const std::int32_t before = snapshot.before ? std::min(snapshot.before->matched, snapshot.begin) : 0;
    snapshot.matched = before;
    if (before < snapshot.begin) continue;
    const auto rest = tokens.subspan(static_cast<std::size_t>(before));
    const auto [differs, _] = std::ranges::mismatch(snapshot.tokens, rest);
    snapshot.matched += static_cast<std::int32_t>(differs - snapshot.tokens.begin());
    snapshot.matched = whole_length(snapshot.soft, common_length(snapshot.matched, snapshot.soft, soft), program_.graph->shape);
  }
}

bool PrefixCache::reaches(const Snapshot& snapshot, std::int32_t length) const {
  return link::keeps(program_.plan, program_.graph->shape, snapshot.marks.written, length);
}

void PrefixCache::use(Snapshot* snapshot) {
  for (++uses_; snapshot; snapshot = snapshot->before) snapshot->used = uses_;
}

std::int32_t PrefixCache::restore(std::string_view space, std::span<const std::int32_t> tokens, Session& session,
                                  std::span<const SoftBlock> soft) {
  session.rollback(0);
  match(space, tokens, soft);
  const auto most = static_cast<std::int32_t>(tokens.size()) - 1;
  Snapshot* best = nullptr;
  std::int32_t length = 0;
  for (Snapshot& snapshot : snapshots_)
    if (const std::int32_t here = whole_length(soft, std::min(snapshot.matched, most), program_.graph->shape);
        here > length && reaches(snapshot, here)) {
      best = &snapshot;
      length = here;
    }
  if (!best) return 0;
  use(best);

  const link::SlotMemory memory = session.memory();
  const auto read_into = [&](BlockStream& stream) {
    return [&](std::size_t offset, std::size_t bytes) { stream.read(memory.bytes.subspan(offset, bytes)); };
  };
  std::vector<const Snapshot*> chain;
  for (const Snapshot* snapshot = best; snapshot; snapshot = snapshot->before) chain.push_back(snapshot);
  for (std::size_t i = chain.size(); i-- > 0;) {
    BlockStream stream(memory_.get(), kBlockBytes, chain[i]->blocks);
    for_each_kept(chain[i]->begin, chain[i]->end(), read_into(stream));
    if (i == 0) for_each_ring(best->end(), read_into(stream));
  }
  *memory.marks = best->marks;
  session.adopt(tokens.first(static_cast<std::size_t>(length)), blocks_before(soft, length), std::min(length, best->prompt_length));
  return length;
}

void PrefixCache::store(std::string_view space, Session& session) {
  const std::int32_t length = session.reusable_length();
  if (length == 0 || block_count_ == 0) return;
  const auto tokens = session.tokens().first(static_cast<std::size_t>(length));
  const auto soft = blocks_before(session.blocks(), length);
  match(space, tokens, soft);
  Snapshot* before = nullptr;
  for (Snapshot& snapshot : snapshots_)
    if (snapshot.matched > (before ? before->matched : 0)) before = &snapshot;
  use(before);
  const std::int32_t begin = before ? before->matched : 0;
  if (std::ranges::any_of(snapshots_, [&](const Snapshot& other) { return other.matched == length && reaches(other, length); })) return;

  Snapshot snapshot{.space = std::string(space), .before = before, .begin = begin};
  snapshot.tokens.assign(tokens.begin() + begin, tokens.end());
  snapshot.soft.assign(soft.begin(), soft.end());
  const link::SlotMemory memory = session.memory();
  snapshot.prompt_length = session.prompt_length();
  snapshot.marks = *memory.marks;
  std::size_t bytes = 0;
  const auto count = [&](std::size_t, std::size_t run) { bytes += run; };
  for_each_kept(begin, length, count);
  for_each_ring(length, count);
  const std::size_t blocks = (bytes + kBlockBytes - 1) / kBlockBytes;
  if (!make_room(blocks, before)) return;
  snapshot.blocks.assign(free_blocks_.end() - static_cast<std::ptrdiff_t>(blocks), free_blocks_.end());
  free_blocks_.resize(free_blocks_.size() - blocks);
  BlockStream stream(memory_.get(), kBlockBytes, snapshot.blocks);
  const auto write = [&](std::size_t offset, std::size_t run) { stream.write(memory.bytes.subspan(offset, run)); };
  for_each_kept(begin, length, write);
  for_each_ring(length, write);
  if (before) ++before->followers;
  use(&snapshots_.emplace_back(std::move(snapshot)));
}

bool PrefixCache::make_room(std::size_t blocks, const Snapshot* spared) {
  if (blocks > block_count_) return false;
  while (free_blocks_.size() < blocks) {
    auto oldest = snapshots_.end();
    for (auto it = snapshots_.begin(); it != snapshots_.end(); ++it)
      if (it->followers == 0 && &*it != spared && (oldest == snapshots_.end() || it->used < oldest->used)) oldest = it;
    if (oldest == snapshots_.end()) return false;
    free_blocks_.insert(free_blocks_.end(), oldest->blocks.begin(), oldest->blocks.end());
    if (oldest->before) --oldest->before->followers;
    snapshots_.erase(oldest);
    ++evictions_;
  }
  return true;
}

}  // namespace lapidary::decode
