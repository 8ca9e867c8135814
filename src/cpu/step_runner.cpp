#include "cpu/step_runner.hpp"

#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cpu/attention_coded.hpp"
#include "cpu/linear_q8.hpp"
#include "cpu/maxima.hpp"
#include "cpu/tower_kernels.hpp"
#include "link/plan.hpp"

namespace lapidary::cpu {

using graph::Op;
using graph::Region;
using graph::Step;

namespace {

// Carried rows of all that may draft in a round.
std::size_t carry_stride(std::size_t row_bytes) { return static_cast<std::size_t>(graph::row_stride(static_cast<std::int64_t>(row_bytes))); }
std::size_t carries_bytes(const link::Program& program) {
  return program.assistant ? link::kMaxDrafters * carry_stride(static_cast<std::size_t>(program.graph->shape.hidden) * sizeof(float)) : 0;
}

// Where threads may attend together.
bool has_attention_room(const link::Program& program) { return program.plan.kv_format != link::kKvF32; }

}  // namespace

StepRunner::StepRunner(const link::Program& program, const Instructions& instructions, const BoundSteps& steps, Team& team)
    : program_(program), instructions_(instructions), steps_(steps), team_(team),
      maxima_(static_cast<std::size_t>(program.plan.verify_rows) * kMaxStretches),
      carries_(std::make_unique<std::byte[]>(carries_bytes(program))) {
  if (has_attention_room(program)) attention_room_ = std::make_unique<AttentionRoom>();
}

std::size_t StepRunner::room_bytes(const link::Program& program) {
  const std::size_t attention_bytes = has_attention_room(program) ? sizeof(AttentionRoom) : 0;
  return attention_bytes + program.plan.verify_rows * kMaxStretches * sizeof(float) + carries_bytes(program);
}

// A row is the work of one thread in these, or all rows are.
bool StepRunner::is_for_one(Op op, std::size_t rows) {
  switch (op) {
    case Op::keep_draft:
    case Op::keep_block:
    case Op::accept: return true;
    case Op::keep_tap:
    case Op::add_norm:
    case Op::embed:
    case Op::embed_pair:
    case Op::rope_angles:
    case Op::rms_norm:
    case Op::residual_norm:
    case Op::route:
    case Op::moe_combine:
    case Op::top:
    case Op::sample: return rows == 1;
    default: return false;
  }
}

void StepRunner::gather(const BoundOperand& operand, const Now& now) {
  if (now.guests.size() == 1) return;
  for (const Guest& guest : now.guests)
    std::memcpy(data(operand, now) + guest.first * stride(operand), carried(operand, guest), operand.row_bytes);
}

void StepRunner::scatter(const BoundOperand& operand, const Now& now) {
  if (now.guests.size() == 1) return;
  for (const Guest& guest : now.guests)
    std::memcpy(carried(operand, guest), data(operand, now) + guest.first * stride(operand), operand.row_bytes);
}

std::byte* StepRunner::data(const BoundOperand& operand, const Now& now) const {
  if (operand.region == Region::rows || operand.region == Region::features) return operand.data + now.first * operand.stride_bytes;
  if (operand.region == Region::session) return now.guests.size() > 1 ? carries_.get() : carried(operand, now.guests.front());
  return operand.data;
}

std::size_t StepRunner::stride(const BoundOperand& operand) {
  return operand.region == Region::session ? carry_stride(operand.row_bytes) : operand.stride_bytes;
}

std::byte* StepRunner::carried(const BoundOperand& operand, const Guest& guest) const {
  return operand.data + guest.seat->slot * program_.plan.session_bytes;
}

template <class T>
RowsOf<T> StepRunner::rows(const BoundOperand& operand, const Now& now) const {
  if (!operand.data) return {};
  return {reinterpret_cast<T*>(data(operand, now)), stride(operand) / sizeof(T)};
}

void StepRunner::quantise(const CpuStep& bound, const Now& now, Part part) {
  quantise_together(static_cast<int>(now.rows.size()), rows<const float>(bound.in[0], now), bound.products()[0], steps_.room(0), part);
}

void StepRunner::run(const CpuStep& bound, const Now& now, Part part) {
  const Step& step = *bound.step;
  const graph::Dims& d = *step.dims;
  const Rows rows_now = now.rows;
  const int n = static_cast<int>(rows_now.size());
  const auto in = [&](int i) { return rows<const float>(bound.in[i], now); };
  const auto out = [&](int i) { return rows<float>(bound.out[i], now); };
  const auto in_ids = [&](int i) { return rows<const std::int32_t>(bound.in[i], now); };
  const auto out_ids = [&](int i) { return rows<std::int32_t>(bound.out[i], now); };
  const auto matrix = [&](int i) -> const link::Matrix& { return *bound.matrices[i]; };
  const auto& w = bound.vectors;
  const HeadShape heads{d.heads, d.kv_heads, d.head_dim};
  const FloatProducts& products = *instructions_.float_products;

  if (bound.q8) return run_q8(bound, now, part);
  switch (step.op) {
    case Op::round_rows: return;  // made before anything goes by them
    case Op::embed: {
      const In soft{now.chunk ? now.chunk->soft.data() : nullptr, static_cast<std::size_t>(matrix(0).cols)};
      return embed(rows_now, soft, matrix(0), d.scale, out(0), part);
    }
    case Op::embed_pair: return embed_pair(rows_now, matrix(0), d.scale, in(0), out(0), part);
    case Op::rope_angles: return rope_angles(rows_now, bound.constants, out(0), part);
    case Op::rms_norm: return rms_norm(n, in(0), w[0], d.n[0], d.epsilon, out(0), part);
    case Op::linear:
      return linear(products, n, in(0), std::span(bound.matrices).first(bound.matrix_count), out(0), part);
    case Op::linear_gelu_mul: return linear_gelu_mul(products, n, in(0), matrix(0), matrix(1), out(0), part);
    case Op::linear_silu_mul: return linear_silu_mul(products, n, in(0), matrix(0), matrix(1), out(0), part);
    case Op::linear_gelu_gate: {
      In factor = in(1);
      factor.data += d.offset;
      return linear_gelu_gate(products, n, in(0), matrix(0), factor, out(0), part);
    }
    case Op::linear_softcap: return linear_softcap(products, n, in(0), matrix(0), d.scale, out(0), part);
    case Op::qkv_norm_rope:
      if (bound.cache_coded)
        return qkv_norm_rope_coded(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, *bound.cache_coded,
                                   out(0), part);
      if (program_.numeric == link::Numeric::fast)
        return qkv_norm_rope_bf16(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache_bf16,
                                  out(0), part);
      return qkv_norm_rope(rows_now, in(0), in(1), w[0], w[1], heads, d.values_are_keys, d.epsilon, bound.cache, out(0),
                           part);
    case Op::block_qkv:
      if (bound.cache_bf16)
        return block_qkv_bf16(rows_now, in(0), in(1), w[0], w[1], heads, d.scale, d.epsilon, *bound.cache_bf16, out(0), part);
      return block_qkv(rows_now, in(0), in(1), w[0], w[1], heads, d.scale, d.epsilon, *bound.cache, out(0), part);
    case Op::attention:
      if (bound.cache_coded) return attend_coded(rows_now, in(0), *bound.cache_coded, heads, d.window, out(0), part);
      if (bound.cache_bf16) return attend_bf16(rows_now, in(0), *bound.cache_bf16, heads, d.window, out(0), part);
      return attention(rows_now, in(0), *bound.cache, heads, d.window, out(0), part);
    case Op::residual_norm: {
      std::array<NormOutput, 3> outputs;
      std::size_t count = 0;
      for (; count < outputs.size() && bound.out[count + 1].data; ++count)
        outputs[count] = {w[count + 2], d.scaled_output == static_cast<int>(count) + 1 ? d.scale : 1.0f,
                          out(static_cast<int>(count) + 1)};
      return residual_norm(n, out(0), in(1), w[0], w[1], d.n[0], d.epsilon, std::span(outputs).first(count), part);
    }
    case Op::ple_inputs:
      return ple_inputs(rows_now, in(0), matrix(0), w[1], d.n[1], d.n[0], d.scale, d.scale2, d.epsilon, out(0), part);
    case Op::route: return route(n, in(0), w[0], d.experts, d.experts_used, out_ids(0), out(1), part);
    case Op::expert_gelu_mul:
      return expert_gelu_mul(products, n, in(0), in_ids(1), d.experts_used, matrix(0), matrix(1), out(0), part);
    case Op::expert_linear: return expert_linear(products, n, in(0), in_ids(1), d.experts_used, matrix(0), out(0), part);
    case Op::moe_combine:
      return moe_combine(n, out(0), in(1), in(2), in(3), d.experts_used, {w[0], w[1], w[2], w[3], w[4]}, d.n[0], d.epsilon,
                         out(1), part);
    case Op::top: return top(n, in(0), d.experts, d.experts_used, out_ids(0), part);
    case Op::cluster_logits:
      return cluster_logits(products, n, in(0), in_ids(1), d.experts_used, d.n[0], matrix(0), bound.ids[1], out(0), out_ids(1), part);
    case Op::sample: {
      const In maxima = bound.has_maxima ? In{maxima_.data(), kMaxStretches} : In{};
      for (const Guest& guest : now.guests)
        sample(static_cast<int>(guest.count), in(0).from(guest.first), in_ids(1).from(guest.first), d.n[0], maxima.from(guest.first),
               guest.chooses ? &guest.selection : nullptr, out_ids(0).from(guest.first), out(1).from(guest.first),
               out_ids(2).from(guest.first), part);
      return;
    }
    case Op::keep_draft:
      for (const Guest& guest : now.guests) keep_draft(in_ids(0)[static_cast<int>(guest.first)][0], *guest.state, part);
      return;
    case Op::accept:
      for (const Guest& guest : now.guests)
        accept(rows_now.subspan(guest.first, guest.count), in_ids(0).from(guest.first), in(1).from(guest.first), d.n[0], *guest.state,
               guest.seat->request ? guest.seat->request->counts : std::span<std::int32_t>{},
               reinterpret_cast<float*>(carried(bound.out[0], guest)), part);
      if (program_.dflash)
        for (const Guest& guest : now.guests)
          keep_features(rows_now.subspan(guest.first, guest.count), in(2).from(guest.first), static_cast<int>(bound.in[2].row_bytes / sizeof(float)),
                        *guest.state, reinterpret_cast<float*>(carried(bound.out[1], guest)), part);
      return;
    case Op::keep_tap: return keep_tap(n, in(0), d.n[0], d.offset, out(0), part);
    case Op::keep_block:
      for (const Guest& guest : now.guests) keep_block(static_cast<int>(guest.count), in_ids(0).from(guest.first), *guest.state, part);
      return;
    case Op::add_norm: return add_norm(n, out(0), in(1), w[0], d.n[0], d.epsilon, out(1), part);
    default: assert(false && "no step of a text");
  }
}

bool StepRunner::is_for_all(const CpuStep& bound, const Now& now) const {
  const graph::Dims& d = *bound.step->dims;
  const bool can = bound.cache_coded || (bound.cache_bf16 && instructions_.attention->together);
  return bound.step->op == Op::attention && can &&
         attends_together(now.rows, {d.heads, d.kv_heads, d.head_dim}, d.window, Part{0, team_.size()});
}

void StepRunner::attend_coded(Rows rows, In q, const KvCacheCoded& cache, HeadShape shape, int window, Out out, Part part) {
  const CodedAttentionKernels& kernels =
      program_.numeric == link::Numeric::exact ? kExactCodedAttention : *instructions_.coded_attention;
  if (!attends_together(rows, shape, window, part)) return attention_coded(rows, q, cache, shape, window, out, part, kernels);
  for_each_job(rows, q, shape, window, out, {0, pairs_of_heads(rows, shape)}, [&](const AttentionJob& job) {
    AttentionState state;
    kernels.together.begin(job, cache, state, *attention_room_, part);
    for_each_chunk(job, [&](Range chunk) {
      team_.sync();
      kernels.together.score(job, cache, chunk, state, *attention_room_, part);
      team_.sync();
      kernels.together.weigh(job, cache, chunk, state, *attention_room_, part);
      team_.sync();
      kernels.together.mix(job, cache, chunk, state, *attention_room_, part);
    });
    team_.sync();
    kernels.together.finish(job, cache, state, *attention_room_, part);
  });
}

void StepRunner::attend_bf16(Rows rows, In q, const link::KvCacheBf16& cache, HeadShape shape, int window, Out out, Part part) {
  const AttendTogether* const together = instructions_.attention->together;
  if (!together || !attends_together(rows, shape, window, part))
    return attention_bf16(rows, q, cache, shape, window, out, part, *instructions_.attention);
  bool begun = false;
  for_each_job(rows, q, shape, window, out, {0, pairs_of_heads(rows, shape)}, [&](const AttentionJob& job) {
    AttentionState state;
    for_each_chunk(job, [&](Range chunk) {
      if (std::exchange(begun, true)) team_.sync();
      together->score(job, cache, chunk, state, *attention_room_, part);
      team_.sync();
      together->weigh(job, cache, chunk, state, *attention_room_, part);
      team_.sync();
      together->mix(job, cache, chunk, state, *attention_room_, part);
    });
  });
}

void StepRunner::run_q8(const CpuStep& bound, const Now& now, Part part) {
  const Step& step = *bound.step;
  const graph::Dims& d = *step.dims;
  const int n = static_cast<int>(now.rows.size());
  const In in = rows<const float>(bound.in[0], now);
  const Out out = rows<float>(bound.out[0], now);
  const auto w = bound.products();
  Q8Room room = steps_.room(part.index);
  room.ready = now.quantised;
  switch (step.op) {
    case Op::linear: return linear_q8(n, in, w, out, room, part);
    case Op::linear_gelu_mul: return linear_gelu_mul_q8(n, in, w[0], w[1], out, room, part);
    case Op::linear_silu_mul: return linear_silu_mul_q8(n, in, w[0], w[1], out, room, part);
    case Op::linear_gelu_gate: {
      In factor = rows<const float>(bound.in[1], now);
      factor.data += d.offset;
      return linear_gelu_gate_q8(n, in, w[0], factor, out, room, part);
    }
    case Op::linear_softcap: return linear_softcap_q8(n, in, w[0], d.scale, out, {maxima_.data(), kMaxStretches}, room, part);
    case Op::expert_gelu_mul:
      return expert_gelu_mul_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], w[1], out, room, part);
    case Op::expert_linear:
      return expert_linear_q8(n, in, rows<const std::int32_t>(bound.in[1], now), d.experts_used, w[0], out, room, part);
    default: assert(false && "no such product");
  }
}

}  // namespace lapidary::cpu
