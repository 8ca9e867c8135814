// Barriers and the functions of a simdgroup. Where a lane waits is known by line and column of the call: lanes that meet
// must be at the same one.
#pragma once

#define SOFTMETAL_SITE unsigned site = __builtin_LINE() << 10 | (__builtin_COLUMN() & 1023)

namespace softmetal {

// Waits for the other lanes of the simdgroup. Returns the area of this meeting.
SOFTMETAL_INSIDE int meet(Lane* lane, unsigned site) {
  Simdgroup* simdgroup = lane->simdgroup;
  const int area = simdgroup->area;
  const uint32_t bit = 1u << lane->place;
  simdgroup->site[lane->place] = site;
  simdgroup->running &= ~bit;
  simdgroup->at_simd |= bit;
  softmetal_park(lane);
  return area;
}

// The same, and leaves a value for the others.
template <class T>
SOFTMETAL_INSIDE int exchange(Lane* lane, const T& value, unsigned site) {
  static_assert(sizeof(T) <= 16, "a lane gives at most 16 bytes");
  Simdgroup* simdgroup = lane->simdgroup;
  __builtin_memcpy(simdgroup->slot[simdgroup->area][lane->lane], &value, sizeof value);
  return meet(lane, site);
}

}  // namespace softmetal

namespace metal {

enum class mem_flags : unsigned { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(unsigned(a) | unsigned(b)); }

SOFTMETAL_INSIDE void threadgroup_barrier(mem_flags flags, SOFTMETAL_SITE) {
  softmetal::Lane* lane = softmetal::this_lane();
  softmetal::Simdgroup* simdgroup = lane->simdgroup;
  const uint32_t bit = 1u << lane->place;
  lane->group->barrier_flags = unsigned(flags);
  simdgroup->site[lane->place] = site;
  simdgroup->running &= ~bit;
  simdgroup->at_barrier |= bit;
  softmetal_park(lane);
}
SOFTMETAL_INSIDE void simdgroup_barrier(mem_flags, SOFTMETAL_SITE) {
  softmetal::Simdgroup* simdgroup = softmetal::this_lane()->simdgroup;
  const int area = softmetal::meet(softmetal::this_lane(), site);
  if (simdgroup->has_result[area]) return;
  simdgroup->has_result[area] = true;
  ++simdgroup->barriers;
}

}  // namespace metal

namespace softmetal {

template <class T>
SOFTMETAL_INSIDE T slot_of(const Simdgroup* simdgroup, int area, unsigned lane) {
  T value;
  __builtin_memcpy(&value, simdgroup->slot[area][lane & 31], sizeof value);
  return value;
}

template <class T>
SOFTMETAL_INSIDE T shuffle(T value, unsigned source, unsigned site) {
  Lane* lane = this_lane();
  const int area = exchange(lane, value, site);
  return slot_of<T>(lane->simdgroup, area, source);
}

// As a tree over halves of the lanes. Mostly all of them take part.
template <class T, class Fold>
SOFTMETAL_INSIDE T folded(const Simdgroup* simdgroup, int area, Fold fold) {
  T values[kSimdWidth];
  for (int i = 0; i < kSimdWidth; ++i) values[i] = slot_of<T>(simdgroup, area, i);
  uint32_t active = simdgroup->active[area];
  if (active == 0xffffffffu) {
    for (int half = kSimdWidth / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) values[i] = fold(values[i], values[i + half]);
    return values[0];
  }
  for (int half = kSimdWidth / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) {
      const bool low = active >> i & 1, high = active >> (i + half) & 1;
      if (low && high) values[i] = fold(values[i], values[i + half]);
      else if (high) values[i] = values[i + half];
      if (high) active |= 1u << i;
    }
  return values[0];
}

// One lane folds what all have left; the others take its result.
template <class T, class Fold>
SOFTMETAL_INSIDE T reduce(T value, Fold fold, unsigned site) {
  Lane* lane = this_lane();
  Simdgroup* simdgroup = lane->simdgroup;
  const int area = exchange(lane, value, site);
  if (!simdgroup->has_result[area]) {
    const T result = folded<T>(simdgroup, area, fold);
    __builtin_memcpy(simdgroup->result[area], &result, sizeof result);
    simdgroup->has_result[area] = true;
  }
  T result;
  __builtin_memcpy(&result, simdgroup->result[area], sizeof result);
  return result;
}

// Of the active lanes before this one, and of this one too when `inclusive`.
template <class T, class Fold>
SOFTMETAL_INSIDE T prefix(T value, T start, bool inclusive, Fold fold, unsigned site) {
  Lane* lane = this_lane();
  const int area = exchange(lane, value, site);
  T result = start;
  for (unsigned i = 0; i < lane->lane + inclusive; ++i)
    if (lane->simdgroup->active[area] >> i & 1) result = fold(result, slot_of<T>(lane->simdgroup, area, i));
  return result;
}

}  // namespace softmetal

namespace metal {

template <class T>
inline T simd_shuffle(T value, ushort lane, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, lane, site);
}
template <class T>
inline T simd_broadcast(T value, ushort lane, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, lane, site);
}
template <class T>
inline T simd_broadcast_first(T value, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, 0, site);
}
template <class T>
inline T simd_shuffle_xor(T value, ushort mask, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, softmetal::this_lane()->lane ^ mask, site);
}
// Beyond the ends a lane keeps what it has; Metal leaves it open.
template <class T>
inline T simd_shuffle_down(T value, ushort delta, SOFTMETAL_SITE) {
  const unsigned lane = softmetal::this_lane()->lane;
  return softmetal::shuffle(value, lane + delta < 32 ? lane + delta : lane, site);
}
template <class T>
inline T simd_shuffle_up(T value, ushort delta, SOFTMETAL_SITE) {
  const unsigned lane = softmetal::this_lane()->lane;
  return softmetal::shuffle(value, lane >= delta ? lane - delta : lane, site);
}
template <class T>
inline T simd_shuffle_rotate_down(T value, ushort delta, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, softmetal::this_lane()->lane + delta, site);
}
template <class T>
inline T simd_shuffle_rotate_up(T value, ushort delta, SOFTMETAL_SITE) {
  return softmetal::shuffle(value, softmetal::this_lane()->lane - delta, site);
}

template <class T>
inline T simd_sum(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return T(a + b); }, site);
}
template <class T>
inline T simd_product(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return T(a * b); }, site);
}
template <class T>
inline T simd_max(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return max(a, b); }, site);
}
template <class T>
inline T simd_min(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return min(a, b); }, site);
}
template <class T>
inline T simd_and(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return T(a & b); }, site);
}
template <class T>
inline T simd_or(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return T(a | b); }, site);
}
template <class T>
inline T simd_xor(T value, SOFTMETAL_SITE) {
  return softmetal::reduce(value, [](T a, T b) { return T(a ^ b); }, site);
}
inline bool simd_any(bool value, SOFTMETAL_SITE) {
  return softmetal::reduce(uint(value), [](uint a, uint b) { return a | b; }, site);
}
inline bool simd_all(bool value, SOFTMETAL_SITE) {
  return softmetal::reduce(uint(value), [](uint a, uint b) { return a & b; }, site);
}
template <class T>
inline T simd_prefix_inclusive_sum(T value, SOFTMETAL_SITE) {
  return softmetal::prefix(value, T(0), true, [](T a, T b) { return T(a + b); }, site);
}
template <class T>
inline T simd_prefix_exclusive_sum(T value, SOFTMETAL_SITE) {
  return softmetal::prefix(value, T(0), false, [](T a, T b) { return T(a + b); }, site);
}
template <class T>
inline T simd_prefix_inclusive_product(T value, SOFTMETAL_SITE) {
  return softmetal::prefix(value, T(1), true, [](T a, T b) { return T(a * b); }, site);
}
template <class T>
inline T simd_prefix_exclusive_product(T value, SOFTMETAL_SITE) {
  return softmetal::prefix(value, T(1), false, [](T a, T b) { return T(a * b); }, site);
}

// One bit for each lane.
class simd_vote {
 public:
  typedef ulong vote_t;

  explicit simd_vote(vote_t votes = 0) : votes_(votes) {}
  explicit operator vote_t() const { return votes_; }
  bool any() const { return votes_ != 0; }
  bool all() const { return votes_ == 0xffffffffu; }

 private:
  vote_t votes_;
};
inline simd_vote simd_ballot(bool value, SOFTMETAL_SITE) {
  const uint bit = uint(value) << softmetal::this_lane()->lane;
  return simd_vote(softmetal::reduce(bit, [](uint a, uint b) { return a | b; }, site));
}

}  // namespace metal
