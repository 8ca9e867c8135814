// Plays towers: their steps, bound when they first perceive.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "cpu/instructions.hpp"
#include "cpu/pages.hpp"
#include "cpu/team.hpp"
#include "cpu/tower_product.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::cpu {

// What threads work in besides the arena of a tower.
std::size_t tower_room_bytes(const link::Program& program, const Instructions& instructions);

class Towers {
 public:
  // Reserves what is planned; `program` must outlive it.
  Towers(const link::Program& program, const Instructions& instructions, Team& team);

  void perceive(const link::Percept& percept, std::span<float> soft, std::span<float> tower);

 private:
  // What all threads do together before anything else begins. A step is one or several of these.
  struct Work {
    enum class Kind : std::uint8_t { rows, pack, multiply, store_keys, attend } kind = Kind::rows;
    const graph::Step* step = nullptr;
    TowerProduct product{};     // pack, multiply
    int first_output = 0;       // multiply: where its results begin in a row
    bool packed = false;        // multiply: by packed rows
  };
  struct Bound {
    link::TowerWeights weights;
    std::vector<Work> works;
  };

  const Bound& bind(const graph::Tower& tower);
  void add_products(const graph::Step& step, const Bound& bound, std::vector<Work>& works) const;
  bool packs(const link::Matrix& weight) const;

  class Run;

  const link::Program& program_;
  const Instructions& instructions_;
  Team& team_;
  Pages arena_, room_;
  std::array<std::optional<Bound>, 2> bound_;  // by Sense
};

}  // namespace lapidary::cpu
