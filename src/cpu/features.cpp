#include "cpu/features.hpp"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <cstddef>
#include <sys/sysctl.h>
#endif

namespace lapidary::cpu {

#if defined(__aarch64__) && defined(__linux__)

bool has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_i8mm() { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
bool has_bf16() { return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0; }

#elif defined(__aarch64__) && defined(__APPLE__)

namespace {

bool has(const char* feature) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}

}  // namespace

bool has_dotprod() { return has("hw.optional.arm.FEAT_DotProd"); }
bool has_i8mm() { return has("hw.optional.arm.FEAT_I8MM"); }
bool has_bf16() { return has("hw.optional.arm.FEAT_BF16"); }

#else

bool has_dotprod() { return false; }
bool has_i8mm() { return false; }
bool has_bf16() { return false; }

#endif

#if defined(__x86_64__)

bool has_sse41() { return __builtin_cpu_supports("sse4.1"); }
bool has_avx2_fma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx_vnni() { return has_avx2_fma() && __builtin_cpu_supports("avxvnni"); }

bool has_avx512_vnni() {
  return has_avx2_fma() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

#else

bool has_sse41() { return false; }
bool has_avx2_fma() { return false; }
bool has_avx_vnni() { return false; }
bool has_avx512_vnni() { return false; }

#endif

}  // namespace lapidary::cpu
