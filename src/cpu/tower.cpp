#include "cpu/tower.hpp"

#include <algorithm>
#include <utility>

#include "cpu/attention_bf16.hpp"
#include "cpu/product.hpp"
#include "cpu/tower_kernels.hpp"
#include "link/percept.hpp"

namespace lapidary::cpu {

using graph::Op;
using graph::Step;
using graph::Tower;

namespace {

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

// Where in the room what lies, for an input of so many rows.
struct RoomShape {
  std::size_t keys_bytes = 0;         // of K, and as many of V, for attention over all rows
  std::size_t packed_bytes = 0;       // rows of an input, packed
  std::size_t thread_bytes = 0;       // what each thread has for itself

  std::size_t shared_bytes() const { return std::max(2 * keys_bytes, packed_bytes); }  // never needed at the same time
};

bool is_fast(const link::Program& program) { return program.numeric == link::Numeric::fast; }

RoomShape room_of(const link::Program& program, const Instructions& instructions, const Tower& tower, std::size_t rows) {
  RoomShape room;
  const bool packs = is_fast(program) && instructions.tower_products;
  for (const Step& step : tower.segment.steps) {
    const auto k = static_cast<std::size_t>(step.dims->k);
    if (step.op == Op::attention_all) {
      const std::size_t elements = round_up(rows, graph::kTile) * static_cast<std::size_t>(step.dims->heads * step.dims->head_dim);
      room.keys_bytes = std::max(room.keys_bytes, elements * (is_fast(program) ? sizeof(std::uint16_t) : sizeof(float)));
    } else if (k) {
      room.thread_bytes = std::max(room.thread_bytes, k * std::max(PackedProducts::kPanelRows * sizeof(std::uint16_t), kMaxLines * sizeof(float)));
      if (packs) room.packed_bytes = std::max(room.packed_bytes, round_up(rows, PackedProducts::kRows) * k * sizeof(std::uint16_t));
    }
  }
  room.thread_bytes = round_up(room.thread_bytes, 4096);
  room.keys_bytes = round_up(room.keys_bytes, 4096);
  room.packed_bytes = round_up(room.packed_bytes, 4096);
  return room;
}

}  // namespace

std::size_t tower_room_bytes(const link::Program& program, const Instructions& instructions) {
  std::size_t bytes = 0;
  for (const Tower& tower : program.graph->towers) {
    const RoomShape room = room_of(program, instructions, tower, static_cast<std::size_t>(program.plan.max_rows(tower)));
    bytes = std::max(bytes, room.shared_bytes() + room.thread_bytes * static_cast<std::size_t>(program.plan.threads));
  }
  return bytes;
}

Towers::Towers(const link::Program& program, const Instructions& instructions, Team& team)
    : program_(program), instructions_(instructions), team_(team), arena_(program.plan.tower_bytes),
      room_(tower_room_bytes(program, instructions)) {
  if (!program.backend_options.huge_pages) return;
  arena_.use_huge_pages();
  room_.use_huge_pages();
}

bool Towers::packs(const link::Matrix& weight) const {
  return is_fast(program_) && instructions_.tower_products && is_packable(weight);
}

// Rows are packed anew where the bounds of the next weight are others.
void Towers::add_products(const Step& step, const Bound& bound, std::vector<Work>& works) const {
  std::vector<TowerProduct> products;
  for (const graph::WeightId id : step.weights)
    if (id != graph::kNone && bound.weights.matrices[id].values) products.push_back({.weight = &bound.weights.matrices[id]});
  if (step.op == Op::linear_silu) products[0].finish = Finish::silu;
  if (step.op == Op::linear_bias) {
    products[0].finish = Finish::add;
    products[0].bias = bound.weights.vectors[step.weights[1]];
  }
  if (step.op == Op::linear_gelu_mul) {
    std::swap(products[0], products[1]);  // what is gated waits in the output
    products[1].finish = Finish::gelu_mul;
  }
  const link::Clip* clip = nullptr;  // of the rows that are packed
  int output = 0;
  for (const TowerProduct& product : products) {
    const link::Matrix& weight = *product.weight;
    const bool packed = packs(weight);
    if (packed && (!clip || !clip->same_input(weight.clip))) {
      works.push_back({Work::Kind::pack, &step, product});
      clip = &weight.clip;
    }
    works.push_back({Work::Kind::multiply, &step, product, output, packed});
    if (step.op != Op::linear_gelu_mul) output += weight.rows;
  }
}

const Towers::Bound& Towers::bind(const Tower& tower) {
  std::optional<Bound>& bound = bound_[static_cast<std::size_t>(tower.sense)];
  if (bound) return *bound;
  Bound made{program_.bind_tower(tower), {}};
  for (const Step& step : tower.segment.steps) {
    if (step.dims->k && step.op != Op::conv_norm_relu && step.op != Op::distance_waves) {
      add_products(step, made, made.works);
    } else if (step.op == Op::attention_all) {
      made.works.push_back({Work::Kind::store_keys, &step});
      made.works.push_back({Work::Kind::attend, &step});
    } else {
      made.works.push_back({Work::Kind::rows, &step});
    }
  }
  return bound.emplace(std::move(made));
}

// One picture or sound.
class Towers::Run {
 public:
  Run(const Towers& towers, const Tower& tower, const Bound& bound, const link::Percept& percept, std::span<float> soft)
      : towers_(towers), tower_(tower), bound_(bound), percept_(percept), soft_(soft),
        capacity_(static_cast<std::size_t>(tower.buffer_rows(percept.rows * percept.columns))),
        room_(room_of(towers.program_, towers.instructions_, tower, static_cast<std::size_t>(percept.rows) * percept.columns)) {}

  void work(const Work& work, Part part) const {
    const Step& step = *work.step;
    const int n = link::rows_of(tower_, step.rows, percept_);
    switch (work.kind) {
      case Work::Kind::rows: return rows(step, n, part);
      case Work::Kind::pack:
        return towers_.instructions_.tower_products->pack(n, in(step.in[0]), step.dims->k, work.product.weight->clip, packed(), part);
      case Work::Kind::multiply: {
        const Out to{out(step.out[0]).data + work.first_output, out(step.out[0]).stride};
        if (work.packed)
          return towers_.instructions_.tower_products->multiply(n, packed(), work.product, to, own<std::uint16_t>(part), part);
        return multiply_f32(*towers_.instructions_.float_products, n, in(step.in[0]), work.product, to, own<float>(part), part);
      }
      case Work::Kind::store_keys: return store_keys(step, n, part);
      case Work::Kind::attend: return attend(step, n, part);
    }
  }

  Out out(graph::BufferId id) const {
    const graph::Buffer& buffer = tower_.segment.buffers[static_cast<std::size_t>(id)];
    if (id == graph::kSoft) return {soft_.data(), static_cast<std::size_t>(tower_.soft_width)};
    return {reinterpret_cast<float*>(towers_.arena_.data() + static_cast<std::size_t>(buffer.offset) * capacity_),
            static_cast<std::size_t>(row_stride(buffer)) / sizeof(float)};
  }

 private:
  In in(graph::BufferId id) const {
    if (id == graph::kPercept) return {percept_.values.data(), static_cast<std::size_t>(tower_.input_width)};
    const Out from = out(id);
    return {from.data, from.stride};
  }

  std::uint16_t* packed() const { return reinterpret_cast<std::uint16_t*>(towers_.room_.data()); }
  template <class T>
  T* own(Part part) const {
    return reinterpret_cast<T*>(towers_.room_.data() + room_.shared_bytes() + room_.thread_bytes * static_cast<std::size_t>(part.index));
  }

  // K and V of all rows as the attention of texts has them: one session, in which every row sees all.
  template <class Cache, class Element>
  Cache cache_of(const graph::Dims& d, int n) const {
    return {reinterpret_cast<Element*>(towers_.room_.data()), reinterpret_cast<Element*>(towers_.room_.data() + room_.keys_bytes), d.heads,
            d.head_dim, static_cast<std::int32_t>(round_up(static_cast<std::size_t>(n), graph::kTile)), 0};
  }

  void store_keys(const Step& step, int n, Part part) const {
    const graph::Dims& d = *step.dims;
    const In qkv = in(step.in[0]);
    const int width = d.heads * d.head_dim;
    if (is_fast(towers_.program_)) {
      const auto cache = cache_of<link::KvCacheBf16, std::uint16_t>(d, n);
      const float none[PackedAttention::kMaxHeadDim] = {};
      for_each_own(cache.capacity, part, [&](int r) {  // behind the last row are zeros
        for (int head = 0; head < d.heads; ++head) {
          const float* key = r < n ? qkv[r] + width + head * d.head_dim : none;
          store_bf16(cache, head, r, key, r < n ? key + width : none);
        }
      });
    } else {
      const auto cache = cache_of<link::KvCache, float>(d, n);
      for_each_own(n, part, [&](int r) {
        for (int head = 0; head < d.heads; ++head) {
          const std::size_t at = cache.index(0, head, r);
          std::copy_n(qkv[r] + width + head * d.head_dim, d.head_dim, cache.k + at);
          std::copy_n(qkv[r] + 2 * width + head * d.head_dim, d.head_dim, cache.v + at);
        }
      });
    }
  }

  static void store_bf16(const link::KvCacheBf16& cache, int head, int row, const float* key, const float* value) {
    const std::size_t k = cache.key_index(0, head, row, 0), v = cache.value_index(0, head, row, 0);
    for (int i = 0; i < cache.head_dim; ++i) {
      cache.k[k + link::KvCacheBf16::key_offset(i)] = numeric::to_bf16(key[i]);
      cache.v[v + link::KvCacheBf16::value_offset(i)] = numeric::to_bf16(value[i]);
    }
  }

  void attend(const Step& step, int n, Part part) const {
    const graph::Dims& d = *step.dims;
    const In qkv = in(step.in[0]);
    const Out to = out(step.out[0]);
    if (!is_fast(towers_.program_)) {
      const std::vector<graph::Row> all(static_cast<std::size_t>(n), graph::Row{.position = n - 1, .block_end = n - 1});
      return attention(all, qkv, cache_of<link::KvCache, float>(d, n), {d.heads, d.heads, d.head_dim}, 0, to, part);
    }
    // Rows of one head take the place of the heads that share K and V.
    const auto cache = cache_of<link::KvCacheBf16, std::uint16_t>(d, n);
    if (towers_.instructions_.tower_attention) return attend_packed(*towers_.instructions_.tower_attention, cache, qkv, n, to, part);
    const int together = AttentionJob::kMaxHeads, jobs = (n + together - 1) / together;
    for_each_own(d.heads * jobs, part, [&](int index) {
      const int head = index / jobs, first = index % jobs * together;
      AttentionJob job{.heads = std::min(together, n - first), .kv_head = head, .first = 0, .last = n - 1};
      for (int i = 0; i < job.heads; ++i) {
        job.q[i] = qkv[first + i] + head * d.head_dim;
        job.out[i] = to[first + i] + head * d.head_dim;
      }
      towers_.instructions_.attention->attend({&job, 1}, cache);
    });
  }

  static void attend_packed(const PackedAttention& kernel, const link::KvCacheBf16& cache, In qkv, int n, Out to, Part part) {
    const int jobs = (n + PackedAttention::kRows - 1) / PackedAttention::kRows, d = cache.head_dim;
    for_each_own(cache.kv_heads * jobs, part, [&](int index) {
      const int head = index / jobs, first = index % jobs * PackedAttention::kRows;
      const In q{qkv[first] + head * d, qkv.stride};
      const Out out{to[first] + head * d, to.stride};
      const std::size_t at = cache.block(0, head, 0);
      kernel.attend(std::min(PackedAttention::kRows, n - first), q, cache.k + at, cache.v + at, n, d, out);
    });
  }

  void rows(const Step& step, int n, Part part) const {
    const graph::Dims& d = *step.dims;
    const auto vector = [&](int i) { return step.weights[i] == graph::kNone ? nullptr : bound_.weights.vectors[step.weights[i]]; };
    const auto matrix = [&](int i) -> const link::Matrix& { return bound_.weights.matrices[step.weights[i]]; };
    const auto constants = [&] { return towers_.program_.graph->constants[step.constants]; };
    switch (step.op) {
      case Op::scale_shift: return scale_shift(n, in(step.in[0]), d.n[0], d.scale, d.scale2, out(step.out[0]), part);
      case Op::add_positions: return add_positions(n, percept_.columns, matrix(0), d.axis_inside, out(step.out[0]), part);
      case Op::grid_angles: return grid_angles(n, percept_.columns, constants(), out(step.out[0]), part);
      case Op::qkv_grid_rope:
        return qkv_grid_rope(n, in(step.in[0]), in(step.in[1]), vector(0), vector(1), d.heads, d.head_dim, d.epsilon, out(step.out[0]), part);
      case Op::pool:
        return pool(n, percept_.columns, d.window, in(step.in[0]), vector(0), vector(1), d.n[0], d.scale, out(step.out[0]), part);
      case Op::layer_norm: return layer_norm(n, in(step.in[0]), vector(0), vector(1), d.n[0], d.epsilon, out(step.out[0]), part);
      case Op::rms_norm: return rms_norm(n, in(step.in[0]), vector(0), d.n[0], d.epsilon, out(step.out[0]), part);
      case Op::residual_norm: {
        const bool second = step.out[1] != graph::kNone;
        const NormOutput normed{vector(2), 1.0f, second ? out(step.out[1]) : Out{}};
        return residual_norm(n, out(step.out[0]), in(step.in[1]), vector(0), nullptr, d.n[0], d.epsilon, {&normed, second ? 1u : 0u}, part,
                             d.scale2 == 0.0f ? 1.0f : d.scale2);
      }
      case Op::add_norm:
        return add_norm(n, out(step.out[0]), in(step.in[1]), vector(0), d.n[0], d.epsilon,
                        step.out[1] != graph::kNone ? out(step.out[1]) : Out{}, part);
      case Op::conv_norm_relu: {
        const int bands = 2 * d.n[0] / d.channels, frames = d.channels && step.rows == graph::RowSet::halved ? percept_.rows : Tower::halved(percept_.rows);
        return conv_norm_relu(frames, bands, d.k / bands, d.channels, in(step.in[0]), vector(0), vector(1), d.epsilon, out(step.out[0]), part);
      }
      case Op::distance_waves: return distance_waves(n, constants(), out(step.out[0]), part);
      case Op::local_attention:
        return local_attention(n, in(step.in[0]), in(step.in[1]), vector(0), {d.heads, d.head_dim, d.window, d.scale, d.scale2, d.cap},
                               out(step.out[0]), part);
      case Op::glu_conv: return glu_conv(n, in(step.in[0]), vector(0), d.window, vector(1), d.n[0], d.epsilon, out(step.out[0]), part);
      default: assert(false && "no step of a tower");
    }
  }

  const Towers& towers_;
  const Tower& tower_;
  const Bound& bound_;
  const link::Percept& percept_;
  const std::span<float> soft_;
  const std::size_t capacity_;  // rows of every buffer
  const RoomShape room_;
};

void Towers::perceive(const link::Percept& percept, std::span<float> soft, std::span<float> tower_rows) {
  const Tower& tower = link::tower_for(program_, percept, soft.size(), tower_rows.size());
  const Bound& bound = bind(tower);
  const Run run(*this, tower, bound, percept, soft);
  std::size_t next = 0;
  const Work* now = nullptr;
  team_.run([&] {
    now = next < bound.works.size() ? &bound.works[next++] : nullptr;
    return now ? Turn::shared : Turn::end;
  }, [&](Part part) { run.work(*now, part); });
  const auto width = static_cast<std::size_t>(tower.tower_width);
  if (tower_rows.empty()) return;
  const Out rows = run.out(graph::kTowerRows);
  for (std::size_t r = 0; r < tower_rows.size() / width; ++r) std::copy_n(rows[r], width, tower_rows.data() + r * width);
}

}  // namespace lapidary::cpu
