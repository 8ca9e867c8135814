// A backend that hands everything on to another one: what is built on it is like that where it is not different. It plays rounds one by
// one.
#pragma once

#include "link/executor.hpp"

namespace lapidary::link {

class ForwardingExecutor : public Executor {
 public:
  explicit ForwardingExecutor(Executor& inner) : inner_(inner) {}

  RunId submit(Play play, std::span<const Seat> seats, const Watch& watch) override {
    return inner_.submit(play, seats, watch);
  }
  void await(RunId run) override { inner_.await(run); }
  Outputs outputs(RunId run, int seat) const override { return inner_.outputs(run, seat); }
  void perceive(const Percept& percept, std::span<float> soft, std::span<float> tower) override { inner_.perceive(percept, soft, tower); }
  graph::RoundState& state(int slot) override { return inner_.state(slot); }
  bool keeps(int slot, std::int32_t length) const override { return inner_.keeps(slot, length); }
  void copy_slot(int from, int to, std::int32_t length) override { inner_.copy_slot(from, to, length); }
  SlotMemory slot_memory(int slot) override { return inner_.slot_memory(slot); }
  bool prompts_stand_apart() const override { return inner_.prompts_stand_apart(); }
  void read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const override {
    inner_.read_kv(slot, layer, kv_head, position, k, v);
  }
  ReadLimit measure_read_limit() override { return inner_.measure_read_limit(); }

 private:
  Executor& inner_;
};

}  // namespace lapidary::link
