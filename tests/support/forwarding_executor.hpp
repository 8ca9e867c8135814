// A backend that hands everything on to another one: what a test's own backend is like where it is not different. It plays
// rounds one by one.
#pragma once

#include "link/executor.hpp"

namespace lapidary::test {

class ForwardingExecutor : public link::Executor {
 public:
  explicit ForwardingExecutor(link::Executor& inner) : inner_(inner) {}

  link::RunId submit(link::Play play, std::span<const link::Seat> seats, const link::Watch& watch) override {
    return inner_.submit(play, seats, watch);
  }
  void await(link::RunId run) override { inner_.await(run); }
  link::Outputs outputs(link::RunId run, int seat) const override { return inner_.outputs(run, seat); }
  void perceive(const link::Percept& percept, std::span<float> soft, std::span<float> tower) override { inner_.perceive(percept, soft, tower); }
  graph::RoundState& state(int slot) override { return inner_.state(slot); }
  bool keeps(int slot, std::int32_t length) const override { return inner_.keeps(slot, length); }
  void copy_slot(int from, int to, std::int32_t length) override { inner_.copy_slot(from, to, length); }
  link::SlotMemory slot_memory(int slot) override { return inner_.slot_memory(slot); }
  bool prompts_stand_apart() const override { return inner_.prompts_stand_apart(); }
  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    inner_.read_kv(slot, layer, kv_head, position, k, v);
  }
  link::ReadLimit measure_read_limit() override { return inner_.measure_read_limit(); }

 private:
  link::Executor& inner_;
};

}  // namespace lapidary::test
