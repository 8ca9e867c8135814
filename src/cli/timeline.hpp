// When each step ran, as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "link/executor.hpp"
#include "link/link.hpp"
#include "text/value.hpp"

namespace lapidary::cli {

// "linear_q8 affine4/64 1536 x 2048": the kernel of a step and the widths of its product.
std::string kernel_of(const link::Program& program, const graph::Step& step);

class Timeline {
 public:
  // `program` must outlive the timeline.
  explicit Timeline(const link::Program& program);

  // The steps of a prompt or a round, and above them what they are.
  void add(const std::string& name, std::span<const link::StepTime> times);

  void write(const std::string& path) const;  // whole or not at all

 private:
  text::Value event_of(const link::StepTime& time) const;
  double microseconds(double time_s) const { return (time_s - begin_s_) * 1e6; }

  const link::Program& program_;
  double begin_s_ = 0;  // of the first step
  text::Value::Array events_;
};

}  // namespace lapidary::cli
