// A backend that takes a round before the one before it has been awaited, also where the one behind it would not: then that
// round is done at once.
#pragma once

#include "link/executor.hpp"

namespace lapidary::test {

class AheadExecutor final : public link::Executor {
 public:
  explicit AheadExecutor(link::Executor& inner) : inner_(inner) {}

  bool run(std::span<const graph::SegmentId> segments, const link::Run& run) override { return inner_.run(segments, run); }
  bool runs_ahead() const override { return true; }
  void await(const link::RoundReport& report) override { inner_.await(report); }
  graph::RoundState& state(int slot) override { return inner_.state(slot); }
  std::span<const float> hidden(int output) const override { return inner_.hidden(output); }
  std::span<const float> logits(int output) const override { return inner_.logits(output); }
  std::int32_t next(int output) const override { return inner_.next(output); }
  bool prompts_stand_apart() const override { return inner_.prompts_stand_apart(); }
  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    inner_.read_kv(slot, layer, kv_head, position, k, v);
  }

 private:
  link::Executor& inner_;
};

}  // namespace lapidary::test
