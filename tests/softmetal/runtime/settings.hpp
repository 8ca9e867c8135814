// How the software device behaves, from environment variables; README.md lists them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softmetal {

struct Settings {
  std::uint64_t seed = 0;        // shuffles what Metal leaves open; 0 = everything in its natural order
  bool check = false;            // races and bounds
  bool zombies = false;          // keep freed objects, so that messages to them are noticed
  bool report = false;           // say at the end what was used and what is left
  int threads = 1;               // that run threadgroups
  std::size_t max_threads = 0;   // of a threadgroup, as pipelines report it
  int family = 9;                // of Apple's GPUs: 7 is the M1, 9 the M3
  std::size_t page_bytes = 0;    // that buffers over existing memory are made of
  std::string cache;             // folder of compiled libraries
  std::string compiler;
  std::string compiler_flags;
};

const Settings& settings();

// Stops the program because its host code broke a rule of Metal.
[[noreturn]] void fail(const std::string& what);

// Stops the program because a kernel did: there the stack of calls says nothing.
[[noreturn]] void fail_kernel(const std::string& what);

}  // namespace softmetal
