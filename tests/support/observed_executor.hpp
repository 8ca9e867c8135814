// A backend whose steps a test sees, and may spoil, before anyone else does.
#pragma once

#include "link/executor.hpp"

namespace lapidary::test {

class ObservedExecutor final : public link::Executor {
 public:
  ObservedExecutor(link::Executor& inner, link::Tap tap) : inner_(inner), tap_(std::move(tap)) {}

  bool run(std::span<const graph::SegmentId> segments, const link::Run& run) override {
    const link::Tap both = [&](const link::StepResult& result) {
      tap_(result);
      if (run.tap) (*run.tap)(result);
    };
    link::Run observed = run;
    observed.tap = &both;
    return inner_.run(segments, observed);
  }
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
  link::Tap tap_;
};

}  // namespace lapidary::test
