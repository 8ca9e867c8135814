// A backend that hands everything on to another one: what a test's own backend is like where it is not different. It plays
// rounds one by one.
#pragma once

#include "link/executor.hpp"

namespace lapidary::test {

class ForwardingExecutor : public link::Executor {
 public:
  explicit ForwardingExecutor(link::Executor& inner) : inner_(inner) {}

  bool run(std::span<const graph::SegmentId> segments, const link::Run& run) override { return inner_.run(segments, run); }
  void await(const link::RoundReport& report) override { inner_.await(report); }
  graph::RoundState& state(int slot) override { return inner_.state(slot); }
  std::span<const float> hidden(int output) const override { return inner_.hidden(output); }
  std::span<const float> logits(int output) const override { return inner_.logits(output); }
  std::int32_t next(int output) const override { return inner_.next(output); }
  bool prompts_stand_apart() const override { return inner_.prompts_stand_apart(); }
  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    inner_.read_kv(slot, layer, kv_head, position, k, v);
  }
  link::ReadLimit measure_read_limit() override { return inner_.measure_read_limit(); }

 private:
  link::Executor& inner_;
};

}  // namespace lapidary::test
