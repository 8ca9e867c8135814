// Whether this build runs so slowly (sanitizers) that tests of many tokens or models do fewer of them: what a sanitizer
// finds does not depend on the numbers, and the release build has them all (of some rooms only in tools/check --full).
#pragma once

namespace lapidary::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAPIDARY_SLOW_BUILD 1
#endif
#endif
#if defined(LAPIDARY_SLOW_BUILD)
inline constexpr bool kSlowBuild = true;
#else
inline constexpr bool kSlowBuild = false;
#endif

}  // namespace lapidary::test
