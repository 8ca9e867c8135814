#include "cpu/bound_steps.hpp"

#include <algorithm>

#include "cpu/q8_steps.hpp"

namespace lapidary::cpu {

using graph::BufferId;
using graph::Op;
using graph::Region;
using graph::SegmentId;
using graph::Step;

namespace {

// This part of the copies, of all parts.
void repack(const link::Program& program, const Q8Kernels& kernels, const ScaleCopies& copies, Part part, std::uint32_t* scales) {
  for (std::size_t i = static_cast<std::size_t>(part.index); i < copies.list.size(); i += static_cast<std::size_t>(part.count)) {
    const ScaleCopy& copy = copies.list[i];
    const link::Matrix& matrix = program.matrices[copy.weight];
    if (matrix.values) interleave_scales(kernels, matrix, copy.expert, scales + copy.offset_words);
  }
}

// Empty where none were prepared, or for other instructions.
std::span<const std::byte> prepared_scales(const link::Program& program, const Instructions& instructions) {
  const std::span<const std::byte> bytes = program.prepared.bytes;
  const bool fits = program.prepared.kind == instructions.name && bytes.size() == q8_scale_bytes(program, *instructions.products);
  return fits ? bytes : std::span<const std::byte>();
}

}  // namespace

std::size_t repacked_bytes(const link::Program& program, const Instructions& instructions) {
  return prepared_scales(program, instructions).empty() ? q8_scale_bytes(program, *instructions.products) : 0;
}

void prepare_scales(const link::Program& program, const Instructions& instructions, std::span<std::byte> out) {
  const ScaleCopies copies = scale_copies(program, *instructions.products);
  repack(program, *instructions.products, copies, {.index = 0, .count = 1}, reinterpret_cast<std::uint32_t*>(out.data()));
}

BoundSteps::BoundSteps(const link::Program& program, const Instructions& instructions, Team& team)
    : program_(program), instructions_(instructions), arena_(program.plan.arena_bytes), kv_(program.plan.kv_bytes),
      scales_(repacked_bytes(program, instructions)),
      rooms_(q8_room_size(program).bytes() * static_cast<std::size_t>(program.plan.threads)) {
  prepare_memory();
  lay_out_caches();
  repack_scales(team);
  lay_out_rooms();
  bool finds_maxima = false;
  for (int id = 0; id < graph::kSegmentCount; ++id)
    if (program.drafters().runs(static_cast<SegmentId>(id))) record(static_cast<SegmentId>(id), finds_maxima);
}

// Before anything is written to it: pages are as large as they were when they were first touched.
void BoundSteps::prepare_memory() {
  const link::BackendOptions& options = program_.backend_options;
  for (Pages* memory : {&arena_, &kv_, &scales_, &rooms_}) {
    if (options.huge_pages) memory->use_huge_pages();
    if (options.lock_memory) lock(memory->bytes());
  }
  if (options.warm_up) {
    arena_.commit();
    kv_.commit();
  }
  for (const link::Origin* origin : {&program_.target, program_.assistant ? &*program_.assistant : nullptr,
                                     program_.dflash ? &*program_.dflash : nullptr}) {
    if (!origin) continue;
    for (const std::span<const std::byte> file : origin->mappings) {
      if (options.lock_memory) lock(file);
      if (options.warm_up) touch(file);
    }
  }
}

void BoundSteps::lay_out_caches() {
  const std::size_t layers = program_.plan.kv.size();
  caches_.resize(layers);
  caches_bf16_.resize(layers);
  caches_coded_.resize(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    const link::KvPlacement& kv = program_.plan.kv[l];
    if (!kv.capacity) continue;
    std::byte *k = kv_.data() + kv.k_offset_bytes, *v = kv_.data() + kv.v_offset_bytes;
    if (kv.stores.coded()) {
      caches_coded_[l] = {k, v, kv.stores, kv.kv_heads, kv.head_dim, kv.capacity, program_.plan.session_bytes,
                          kv.stores.one ? link::key_norm(program_, static_cast<int>(l)) : nullptr};
      continue;
    }
    const auto lay_out = [&](auto& cache) {
      using Element = std::remove_pointer_t<decltype(cache.k)>;
      cache = {reinterpret_cast<Element*>(k), reinterpret_cast<Element*>(v), kv.kv_heads, kv.head_dim, kv.capacity,
               program_.plan.session_bytes / sizeof(Element)};
    };
    if (kv.stores.key_code == link::KvCode::bf16) lay_out(caches_bf16_[l]);
    else lay_out(caches_[l]);
  }
}

// Every thread does some of the list of matrices and experts, unless all was prepared before.
void BoundSteps::repack_scales(Team& team) {
  const Q8Kernels& kernels = *instructions_.products;
  const ScaleCopies copies = scale_copies(program_, kernels);
  q8_matrices_.resize(program_.matrices.size());
  if (copies.list.empty()) return;
  const std::span<const std::byte> prepared = prepared_scales(program_, instructions_);
  const auto* scales = reinterpret_cast<const std::uint32_t*>(prepared.empty() ? scales_.data() : prepared.data());
  for (const ScaleCopy& copy : copies.list)
    if (copy.expert == 0) q8_matrices_[copy.weight] = Q8Matrix(kernels, program_.matrices[copy.weight], scales + copy.offset_words);
  if (!prepared.empty()) return;
  team.run([&](Part part) {
    repack(program_, kernels, copies, part, reinterpret_cast<std::uint32_t*>(scales_.data()));
  });
}

void BoundSteps::lay_out_rooms() {
  const Q8RoomSize room = q8_room_size(program_);
  if (!room.bytes()) return;
  for (int thread = 0; thread < program_.plan.threads; ++thread) {
    std::byte* at = rooms_.data() + room.bytes() * static_cast<std::size_t>(thread);
    thread_rooms_.push_back({.q = reinterpret_cast<std::int8_t*>(at),
                             .factors = reinterpret_cast<float*>(at + room.quantised_bytes()),
                             .products = reinterpret_cast<float*>(at + room.quantised_bytes() + room.factor_bytes()),
                             .output_stride = room.outputs});
  }
}

BoundOperand BoundSteps::bind(const graph::Segment& segment, BufferId id) const {
  if (id == graph::kNone) return {};
  const graph::Buffer& buffer = segment.buffers[id];
  BoundOperand operand{.row_bytes = static_cast<std::size_t>(buffer.row_bytes),
              .stride_bytes = static_cast<std::size_t>(row_stride(buffer)), .region = buffer.region};
  const auto row_capacity = static_cast<std::size_t>(program_.plan.row_capacity);
  std::byte* rows = arena_.data() + program_.plan.output_region_bytes;
  switch (buffer.region) {
    case Region::outputs: operand.data = arena_.data() + buffer.offset * program_.plan.verify_rows; break;
    case Region::rows: operand.data = rows + buffer.offset * row_capacity; break;
    case Region::draft: operand.data = rows + buffer.offset * link::kMaxDrafters; break;
    case Region::session:
      operand.stride_bytes = 0;
      if (id == graph::kCarry) operand.data = kv_.data() + program_.plan.carry_offset_bytes;
      else if (program_.dflash) operand.data = kv_.data() + program_.plan.pending_offset_bytes;
      break;
    case Region::features:
      if (program_.dflash) operand.data = arena_.data() + program_.plan.features_offset_bytes;
      break;
    case Region::given: break;
  }
  return operand;
}

// finds_maxima: does the last head in the list? Heads come before those who choose by their logits.
void BoundSteps::record(SegmentId id, bool& finds_maxima) {
  const graph::Segment& segment = program_.graph->segment(id);
  auto& list = segments_[static_cast<std::size_t>(id)];
  for (const Step& step : segment.steps) {
    if (!runs(program_, step)) continue;
    CpuStep& bound = list.emplace_back();
    bound.step = &step;
    for (std::size_t i = 0; i < step.in.size(); ++i) bound.in[i] = bind(segment, step.in[i]);
    for (std::size_t i = 0; i < step.out.size(); ++i) bound.out[i] = bind(segment, step.out[i]);
    for (std::size_t i = 0; i < step.weights.size(); ++i) {
      const graph::WeightId weight = step.weights[i];
      if (weight == graph::kNone) continue;
      bound.vectors[i] = program_.vectors[weight];
      bound.ids[i] = program_.ids[weight];
      if (!program_.matrices[weight].values) continue;
      bound.q8_matrices[bound.matrix_count] = q8_matrices_[weight];
      bound.matrices[bound.matrix_count++] = &program_.matrices[weight];
    }
    bound.q8 = is_q8(program_, step);
    if (step.op == Op::linear_softcap) finds_maxima = bound.q8;
    bound.has_maxima = step.op == Op::sample && finds_maxima && step.in[1] == graph::kNone;
    if (step.constants != graph::kNone) bound.constants = program_.graph->constants[step.constants];
    if (step.op == Op::attention || step.dims->owns_kv) {
      const auto l = static_cast<std::size_t>(step.dims->kv_layer);
      const link::KvStores& stores = program_.plan.kv[l].stores;
      if (stores.coded()) bound.cache_coded = &caches_coded_[l];
      else if (stores.key_code == link::KvCode::bf16) bound.cache_bf16 = &caches_bf16_[l];
      else bound.cache = &caches_[l];
    }
  }
}

void BoundSteps::read_kv(int slot, int layer, int kv_head, int position, std::span<float> k, std::span<float> v) const {
  const link::KvStores& stores = program_.plan.kv[static_cast<std::size_t>(layer)].stores;
  if (stores.coded()) return caches_coded_[layer].read(slot, kv_head, position, k, v);
  if (stores.key_code == link::KvCode::f32) {
    const link::KvCache& cache = caches_[layer];
    std::copy_n(cache.k + cache.index(slot, kv_head, position), k.size(), k.data());
    std::copy_n(cache.v + cache.index(slot, kv_head, position), v.size(), v.data());
    return;
  }
  const link::KvCacheBf16& cache = caches_bf16_[layer];
  for (std::size_t i = 0; i < k.size(); ++i) {
    k[i] = numeric::from_bf16(cache.k[cache.key_index(slot, kv_head, position, static_cast<int>(i))]);
    v[i] = numeric::from_bf16(cache.v[cache.value_index(slot, kv_head, position, static_cast<int>(i))]);
  }
}

}  // namespace lapidary::cpu
