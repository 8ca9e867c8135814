#include "cpu/linear_q8.hpp"

#include <array>

#include "cpu/expert_rows.hpp"
#include "cpu/maxima.hpp"
#include "numeric/math.hpp"

namespace lapidary::cpu {
namespace {

using Pointers = std::array<const float*, kTileRows>;

constexpr int kTogetherValues = 2048;  // half of them take 0.4 us: a barrier must cost less

// Steps that a thread takes at least: fewer would begin their streams too often.
constexpr int kGrain = 16;

// Up to kTileRows rows of activations, quantised once for all weights of one form.
class Tile {
 public:
  explicit Tile(const Q8Room& room) : room_(room) {}

  void begin() { rows_ = 0; }
  void add(const float* x) { x_[rows_++] = x; }
  int rows() const { return rows_; }

  const Q8Tile& quantised(const Q8Kernels& kernels, const Q8Weights& w) {
    if (room_.ready) return *room_.ready;
    const bool same = done_ && tile_.form == w.format.form() && tile_.rows == rows_ && tile_.cols == w.cols &&
                      std::equal(x_.begin(), x_.begin() + rows_, quantised_x_.begin());
    if (!same) {
      tile_ = {.form = w.format.form(), .rows = rows_, .cols = w.cols, .q = room_.q, .factors = room_.factors};
      kernels.quantise(x_.data(), tile_, {0, w.cols / w.format.group});
      quantised_x_ = x_;
      done_ = true;
    }
    return tile_;
  }

 private:
  const Q8Room& room_;
  int rows_ = 0;
  Pointers x_{}, quantised_x_{};
  bool done_ = false;
  Q8Tile tile_;
};

// Calls work(tile, y, first row, range) so that the steps of all tiles, `steps` each, are shared evenly, most tiles whole; y are the
// outputs of the tile's rows.
template <class Work>
void for_each_tile(int rows, In x, Out out, int steps, const Q8Room& room, Part part, Work work) {
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  Tile tile(room);
  for_each_share(tiles * steps, part, kGrain, [&](Range mine) {
    for (int t = mine.begin / steps; t * steps < mine.end; ++t) {
      const int first = t * kTileRows;
      std::array<float*, kTileRows> y{};
      tile.begin();
      for (int r = first; r < std::min(rows, first + kTileRows); ++r) {
        y[tile.rows()] = out[r];
        tile.add(x[r]);
      }
      work(tile, y, first, overlap(mine, t * steps, steps));
    }
  });
}

std::array<float*, kTileRows> products_of(const Q8Room& room) {
  std::array<float*, kTileRows> rows;
  for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = room.products + r * room.output_stride;
  return rows;
}

// y = numeric::gelu(gate) * factor
void gelu_times(const float* gate, const float* factor, int count, float* y) {
  LAPIDARY_SIDE_BY_SIDE
  for (int i = 0; i < count; ++i) y[i] = numeric::gelu(gate[i]) * factor[i];
}

// y = numeric::silu(gate) * factor
void silu_times(const float* gate, const float* factor, int count, float* y) {
  LAPIDARY_SIDE_BY_SIDE
  for (int i = 0; i < count; ++i) y[i] = numeric::silu(gate[i]) * factor[i];
}

// y = cap * numeric::tanh(y / cap)
void soft_cap(float cap, int count, float* y) {
  LAPIDARY_SIDE_BY_SIDE
  for (int i = 0; i < count; ++i) y[i] = cap * numeric::tanh(y[i] / cap);
}

// y = w x for the weight rows of these steps
void multiply(Tile& tile, const Q8Kernels& kernels, const Q8Weights& w, float* const* y, Range steps) {
  kernels.multiply(w, tile.quantised(kernels, w), y, steps);
}

// y = gated(gate x) * (up x), by gelu_times or silu_times
void gated_mul(Tile& tile, const Q8Kernels& kernels, const Q8Weights& gate, const Q8Weights& up, float* const* y,
               const Q8Room& room, Range steps, void (*times)(const float*, const float*, int, float*)) {
  const auto gates = products_of(room);
  multiply(tile, kernels, gate, gates.data(), steps);
  multiply(tile, kernels, up, y, steps);
  for (int r = 0; r < tile.rows(); ++r)
    gate.sweep.for_each_run(steps, [&](int first, int count) {
      times(gates[r] + first, y[r] + first, count, y[r] + first);
    });
}

}  // namespace

bool quantises_together(int rows, std::span<const Q8Matrix> weights, Part part) {
  const link::Matrix& first = *weights[0].matrix;
  return part.count > 1 && !first.experts && rows <= kTileRows && rows * first.cols >= kTogetherValues &&
         std::ranges::all_of(weights, [&](const Q8Matrix& one) { return one.format().form() == weights[0].format().form(); });
}

Q8Tile quantise_together(int rows, In x, const Q8Matrix& weight, const Q8Room& common, Part part) {
  const Q8Weights w = weight.weights();
  const Q8Tile tile{.form = w.format.form(), .rows = rows, .cols = w.cols, .q = common.q, .factors = common.factors};
  Pointers all{};
  for (int r = 0; r < rows; ++r) all[r] = x[r];
  for_each_share(w.cols / w.format.group, part, 1, [&](Range groups) { weight.kernels->quantise(all.data(), tile, groups); });
  return tile;
}

void linear_q8(int rows, In x, std::span<const Q8Matrix> weights, Out out, const Q8Room& room, Part part) {
  int steps = 0;
  for (const Q8Matrix& matrix : weights) steps += matrix.sweep.steps();
  for_each_tile(rows, x, out, steps, room, part, [&](Tile& tile, std::array<float*, kTileRows> y, int, Range range) {
    int begin = 0;  // of the matrix's steps among all
    for (const Q8Matrix& matrix : weights) {
      const Q8Weights w = matrix.weights();
      const Range its = overlap(range, begin, w.sweep.steps());
      if (its.begin < its.end) multiply(tile, *matrix.kernels, w, y.data(), its);
      for (int r = 0; r < tile.rows(); ++r) y[r] += w.rows;
      begin += w.sweep.steps();
    }
  });
}

void linear_gelu_mul_q8(int rows, In x, const Q8Matrix& gate, const Q8Matrix& up, Out out, const Q8Room& room, Part part) {
  const Q8Weights g = gate.weights(), u = up.weights();
  for_each_tile(rows, x, out, g.sweep.steps(), room, part, [&](Tile& tile, const auto& y, int, Range steps) {
    gated_mul(tile, *gate.kernels, g, u, y.data(), room, steps, gelu_times);
  });
}

void linear_silu_mul_q8(int rows, In x, const Q8Matrix& gate, const Q8Matrix& up, Out out, const Q8Room& room, Part part) {
  const Q8Weights g = gate.weights(), u = up.weights();
  for_each_tile(rows, x, out, g.sweep.steps(), room, part, [&](Tile& tile, const auto& y, int, Range steps) {
    gated_mul(tile, *gate.kernels, g, u, y.data(), room, steps, silu_times);
  });
}

void linear_gelu_gate_q8(int rows, In x, const Q8Matrix& weight, In factor, Out out, const Q8Room& room, Part part) {
  const Q8Weights w = weight.weights();
  for_each_tile(rows, x, out, w.sweep.steps(), room, part, [&](Tile& tile, const auto& y, int first_row, Range steps) {
    multiply(tile, *weight.kernels, w, y.data(), steps);
    for (int r = 0; r < tile.rows(); ++r)
      w.sweep.for_each_run(steps, [&](int first, int count) {
        gelu_times(y[r] + first, factor[first_row + r] + first, count, y[r] + first);
      });
  });
}

void linear_softcap_q8(int rows, In x, const Q8Matrix& weight, float cap, Out out, Out maxima, const Q8Room& room, Part part) {
  const Q8Weights w = weight.weights();
  for_each_tile(rows, x, out, w.sweep.steps(), room, part, [&](Tile& tile, const auto& y, int first_row, Range steps) {
    multiply(tile, *weight.kernels, w, y.data(), steps);
    for (int r = 0; r < tile.rows(); ++r)
      w.sweep.for_each_run(steps, [&](int first, int count) {
        if (cap != 0.0f) soft_cap(cap, count, y[r] + first);
        find_maxima(y[r], w.rows, first, count, maxima[first_row + r]);
      });
  });
}

void expert_gelu_mul_q8(int rows, In x, InIds ids, int used, const Q8Matrix& gate, const Q8Matrix& up, Out out,
                        const Q8Room& room, Part part) {
  Tile tile(room);
  for_each_expert_share(rows, ids, used, gate.matrix->experts, kTileRows, gate.sweep.steps(), kGrain, part,
                        [&](std::span<const Pick> picks, Range steps) {
    std::array<float*, kTileRows> y{};
    tile.begin();
    for (const Pick& pick : picks) {
      y[tile.rows()] = out[pick.row] + pick.slot * gate.matrix->rows;
      tile.add(x[pick.row]);
    }
    gated_mul(tile, *gate.kernels, gate.weights(picks.front().expert), up.weights(picks.front().expert), y.data(), room, steps, gelu_times);
  });
}

void expert_linear_q8(int rows, In x, InIds ids, int used, const Q8Matrix& weight, Out out, const Q8Room& room, Part part) {
  Tile tile(room);
  for_each_expert_share(rows, ids, used, weight.matrix->experts, kTileRows, weight.sweep.steps(), kGrain, part,
                        [&](std::span<const Pick> picks, Range steps) {
    std::array<float*, kTileRows> y{};
    tile.begin();
    for (const Pick& pick : picks) {
      y[tile.rows()] = out[pick.row] + pick.slot * weight.matrix->rows;
      tile.add(x[pick.row] + pick.slot * weight.matrix->cols);
    }
    const Q8Weights w = weight.weights(picks.front().expert);
    multiply(tile, *weight.kernels, w, y.data(), steps);
  });
}

}  // namespace lapidary::cpu
