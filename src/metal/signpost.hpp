// Intervals that Instruments shows among the points of interest. Elsewhere than on macOS there is nothing to show them.
#pragma once

#include <cstdint>
#include <utility>

#if defined(__APPLE__)
#include <os/log.h>
#include <os/signpost.h>
#endif

namespace lapidary::metal {

// host: between two runs. verify has its drafts in it where both are one run.
enum class Work : std::uint8_t { none, load, perceive, prefill, draft, verify, host };

// From its construction until end() or its destruction.
class Interval {
 public:
  Interval() = default;
  explicit Interval(Work work) : work_(work) { mark(true); }
  Interval(Interval&& other) noexcept : work_(std::exchange(other.work_, Work::none)), id_(other.id_) {}
  Interval& operator=(Interval&& other) noexcept {
    end();
    work_ = std::exchange(other.work_, Work::none);
    id_ = other.id_;
    return *this;
  }
  ~Interval() { end(); }

  void end() {
    mark(false);
    work_ = Work::none;
  }

 private:
#if defined(__APPLE__)
  static os_log_t log() {
    static const os_log_t points = os_log_create("lapidary", OS_LOG_CATEGORY_POINTS_OF_INTEREST);
    return points;
  }

  // The name of a signpost is a literal.
#define LAPIDARY_MARK(name) \
  if (begins) os_signpost_interval_begin(log(), id_, name); \
  else os_signpost_interval_end(log(), id_, name); \
  break
  void mark(bool begins) {
    if (begins) id_ = os_signpost_id_generate(log());
    switch (work_) {
      case Work::none: break;
      case Work::load: LAPIDARY_MARK("load");
      case Work::perceive: LAPIDARY_MARK("perceive");
      case Work::prefill: LAPIDARY_MARK("prefill");
      case Work::draft: LAPIDARY_MARK("draft");
      case Work::verify: LAPIDARY_MARK("verify");
      case Work::host: LAPIDARY_MARK("host");
    }
  }
#undef LAPIDARY_MARK
#else
  void mark(bool) {}
#endif

  Work work_ = Work::none;
  std::uint64_t id_ = 0;  // os_signpost_id_t
};

}  // namespace lapidary::metal
