// rope_angles, qkv_norm_rope and block_qkv on the CPU.
#include <boost/ut.hpp>

#include "cpu/kernel_rows.hpp"
#include "support/rope_cases.hpp"

namespace lapidary::test::rope_test {
namespace {

using namespace boost::ut;

FloatRows rope_angles(const std::vector<graph::Row>& rows, const std::vector<float>& f, int parts) {
  RowBuffer out(count_of(rows), 2 * count_of(f));
  in_parts(parts, [&](cpu::Part part) { cpu::rope_angles(rows, f, out.out(), part); });
  return out.rows();
}

FloatRows qkv_norm_rope(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles,
                        const RopeLayer& layer, bool, int parts) {
  const auto& [heads, kv_heads, head_dim] = layer.shape;
  const RowBuffer in(qkv), angle_rows(angles);
  RowBuffer q(count_of(rows), heads * head_dim);
  std::vector<float> k, v;
  if (layer.owns_kv) k = v = layer.empty_memory(5);
  const link::KvCache cache{k.data(), v.data(), kv_heads, head_dim, RopeLayer::kCapacity, k.size() / RopeLayer::kSlots};
  in_parts(parts, [&](cpu::Part part) {
    cpu::qkv_norm_rope(rows, in.in(), angle_rows.in(), layer.q_norm.data(), layer.owns_kv ? layer.k_norm.data() : nullptr,
                       {heads, kv_heads, head_dim}, layer.values_are_keys, kEpsilon, layer.owns_kv ? &cache : nullptr,
                       q.out(), part);
  });
  FloatRows all = q.rows();
  if (layer.owns_kv)
    for (const auto& memory : {k, v}) layer.take_written(memory, rows, false, all);
  return all;
}

FloatRows block_qkv(const std::vector<graph::Row>& rows, const FloatRows& qkv, const FloatRows& angles, const RopeLayer& layer,
                    float scale, bool, int parts) {
  const auto& [heads, kv_heads, head_dim] = layer.shape;
  const RowBuffer in(qkv), angle_rows(angles);
  RowBuffer q(count_of(rows), heads * head_dim);
  std::vector<float> k = layer.empty_memory(5), v = k;
  const link::KvCache cache{k.data(), v.data(), kv_heads, head_dim, RopeLayer::kCapacity, k.size() / RopeLayer::kSlots};
  in_parts(parts, [&](cpu::Part part) {
    cpu::block_qkv(rows, in.in(), angle_rows.in(), layer.q_norm.data(), layer.k_norm.data(), {heads, kv_heads, head_dim}, scale, kEpsilon,
                   cache, q.out(), part);
  });
  FloatRows all = q.rows();
  for (const auto& memory : {k, v}) layer.take_written(memory, rows, false, all);
  return all;
}

const RopeKernels kKernels{
    .rope_angles = rope_angles, .qkv_norm_rope = qkv_norm_rope, .block_qkv = block_qkv, .kv_in_bf16 = {false}, .rows = 67};

suite<"rope"> rope_suite = [] {
  test_rope_angles(kKernels);
  test_qkv_norm_rope(kKernels);
  test_block_qkv(kKernels);
};

}  // namespace
}  // namespace lapidary::test::rope_test
