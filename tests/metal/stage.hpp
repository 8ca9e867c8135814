// One step alone on the device: the tests of the kernels put its operands into buffers, run the dispatches that the product would
// encode for it, and take its results.
#pragma once

#include <boost/ut.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "metal/gpu.hpp"
#include "numeric/bf16.hpp"
#include "support/rows.hpp"

namespace lapidary::test {

// The device of this program's tests: compiling the library takes seconds.
inline metal::Gpu& gpu() {
  static metal::Gpu one;
  return one;
}

// Runs some dispatches and nothing else. Whatever the device reports is a failure.
inline void run_alone(std::vector<metal::Dispatch> dispatches, int rows) {
  const metal::Pool pool;
  MTL::CommandBuffer* commands = gpu().queue()->commandBuffer();
  MTL::ComputeCommandEncoder* encoder = commands->computeCommandEncoder();
  for (metal::Dispatch& dispatch : dispatches) {
    gpu().prepare(dispatch);
    metal::encode(encoder, dispatch, rows);
  }
  encoder->endEncoding();
  commands->commit();
  commands->waitUntilCompleted();
  const std::string problem = commands->error() ? commands->error()->localizedDescription()->utf8String() : "";
  boost::ut::expect(problem.empty()) << problem;
}

class Stage {
 public:
  Stage(graph::Op op, const graph::Dims& dims, int rows, metal::NumericClass numeric = metal::NumericClass::round)
      : rows_(rows), dims_(dims) {
    step_.op = op;
    step_.dims = &dims_;
    params_ = metal::params_of(step_);
    run_.row_count = rows;
    run_.output_count = rows;
    bound_.step = &step_;
    bound_.numeric = numeric;
    bound_.rows = rows;
  }

  void row_set(graph::RowSet rows) {
    step_.rows = rows;
    params_.rows = metal::rows_of(rows);
  }

  metal::BoundStep& bound() { return bound_; }
  metal::layout::Step& params() { return params_; }
  metal::layout::Run& run() { return run_; }
  int rows() const { return rows_; }

  // DeviceMemory with these bytes; lives as long as the stage. Ends where a page ends, so that what is read behind it is noticed.
  metal::Slice hold(const void* data, std::size_t bytes) {
    auto buffer = gpu().allocate(bytes, "stage");
    if (data) std::memcpy(buffer->contents(), data, bytes);
    held_.push_back(buffer);
    return {buffer.get(), 0};
  }
  template <class T>
  metal::Slice hold(const std::vector<T>& values) {
    return hold(values.data(), values.size() * sizeof(T));
  }

  void row_table(const std::vector<graph::Row>& rows) { bound_.row_table = hold(rows); }
  void in(int i, const FloatRows& rows) { bound_.in[i] = hold_rows(rows, params_.in[i]); }
  void in_ids(int i, const std::vector<std::vector<std::int32_t>>& rows) { bound_.in[i] = hold_rows(rows, params_.in[i]); }
  // Room for an output of so many 4-byte elements, with gaps between its rows that must stay as they are.
  void out(int i, int width) { bound_.out[i] = hold_rows(FloatRows(rows_, std::vector<float>(width, kUntouched)), params_.out[i]); }
  // An output that begins as `rows`.
  void out(int i, const FloatRows& rows) { bound_.out[i] = hold_rows(rows, params_.out[i]); }
  void in_place(int i, int o) { bound_.in[i] = bound_.out[o]; params_.in[i] = params_.out[o]; }

  // Weight i of the step. The bytes are copied: tests give matrices at odd addresses.
  void matrix(int i, const link::Matrix& matrix) {
    const std::size_t experts = static_cast<std::size_t>(std::max(1, matrix.experts));
    metal::BoundMatrix& bound = bound_.matrices[i];
    matrices_.push_back(std::make_unique<link::Matrix>(matrix));
    bound.matrix = matrices_.back().get();
    bound.values = hold(matrix.values, experts * static_cast<std::size_t>(matrix.rows) * matrix.row_bytes);
    const std::size_t scale_bytes = experts * static_cast<std::size_t>(matrix.rows) * matrix.scale_row_bytes;
    if (matrix.scales) bound.scales = hold(matrix.scales, scale_bytes);
    if (matrix.biases) bound.biases = hold(matrix.biases, scale_bytes);
    step_.weights[i] = static_cast<graph::WeightId>(i);
    params_.weights |= 1 << i;
    params_.matrix[matrix_count_++] = metal::layout_of(matrix);
  }
  template <class T>
  void vector(int i, const std::vector<T>& values) {
    bound_.vectors[i] = hold(values);
    step_.weights[i] = static_cast<graph::WeightId>(i);
    params_.weights |= 1 << i;
  }
  // K and V of a layer, [session slot][kv head][ring slot][head_dim], and elements from one session slot to the next.
  void kv(const std::vector<float>& keys, const std::vector<float>& values, int capacity, std::size_t slot_elements, bool bf16) {
    params_.kv_capacity = capacity;
    const link::KvCode code = bf16 ? link::KvCode::bf16 : link::KvCode::f32;
    params_.kv_slot_bytes = slot_elements * link::kv_bytes(code, 1);
    bound_.kv_stores = {.key_code = code, .value_code = code, .keys = params_.head_dim, .values = params_.head_dim};
    bound_.keys = hold_kv(keys);
    bound_.values = hold_kv(values);
  }
  // The same as codes, in bytes: tiles of codes, each followed by its scales. norm: where keys are made from values, else empty
  void kv(const link::KvStores& stores, const std::vector<std::uint8_t>& keys, const std::vector<std::uint8_t>& values, int capacity,
          std::size_t slot_bytes, const std::vector<float>& norm) {
    params_.kv_capacity = capacity;
    params_.kv_slot_bytes = slot_bytes;
    bound_.kv_stores = stores;
    bound_.keys = hold(keys);
    bound_.values = hold(values);
    if (!norm.empty()) bound_.key_norm = hold(norm);
  }
  void constants(const std::vector<float>& values) { bound_.constants = hold(values); }

  // Everything in its place.
  const metal::BoundStep& ready() {
    bound_.params = hold(&params_, sizeof params_);
    bound_.run = hold(&run_, sizeof run_);
    return bound_;
  }

  // Runs the step; with so many threads in a threadgroup, or 0 = as many as the product has.
  void play(int threads = 0) {
    const metal::Pool pool;
    std::vector<metal::Dispatch> dispatches = metal::dispatches_of(ready());
    if (threads)
      for (metal::Dispatch& dispatch : dispatches) dispatch.threads = threads;
    run_alone(dispatches, rows_);
  }

  FloatRows floats(int i) const { return rows_of<float>(bound_.out[i]); }
  std::vector<std::uint8_t> key_bytes() const { return bytes_of(bound_.keys); }
  std::vector<std::uint8_t> value_bytes() const { return bytes_of(bound_.values); }
  std::vector<float> keys() const { return kv_of(bound_.keys); }
  std::vector<float> values() const { return kv_of(bound_.values); }
  std::vector<std::vector<std::int32_t>> ids(int i) const { return rows_of<std::int32_t>(bound_.out[i]); }

 private:
  static constexpr int kGap = 3;  // elements between rows

  template <class T>
  metal::Slice hold_rows(const std::vector<std::vector<T>>& rows, metal::layout::Operand& operand) {
    const std::size_t width = rows.front().size(), stride = width + kGap;
    std::vector<T> flat(stride * (rows.size() - 1) + width);
    const float gap = kUntouched;
    for (T& value : flat) std::memcpy(&value, &gap, sizeof gap);
    for (std::size_t r = 0; r < rows.size(); ++r) std::copy(rows[r].begin(), rows[r].end(), flat.begin() + r * stride);
    operand = {0, static_cast<std::uint32_t>(stride * sizeof(T)), 0};
    const metal::Slice slice = hold(flat);
    widths_[metal::buffer_of(slice)] = width;
    return slice;
  }

  metal::Slice hold_kv(const std::vector<float>& values) {
    if (bound_.kv_stores.value_code == link::KvCode::f32) return hold(values);
    std::vector<std::uint16_t> rounded;
    for (const float value : values) rounded.push_back(numeric::to_bf16(value));
    return hold(rounded);
  }

  static std::vector<std::uint8_t> bytes_of(const metal::Slice& slice) {
    const auto* data = static_cast<const std::uint8_t*>(metal::buffer_of(slice)->contents());
    return {data, data + metal::buffer_of(slice)->length()};
  }

  std::vector<float> kv_of(const metal::Slice& slice) const {
    const link::KvCode code = bound_.kv_stores.value_code;
    std::vector<float> all(metal::buffer_of(slice)->length() / link::kv_bytes(code, 1));
    link::widen(code, static_cast<const std::byte*>(metal::buffer_of(slice)->contents()), 0, all);
    return all;
  }

  template <class T>
  std::vector<std::vector<T>> rows_of(const metal::Slice& slice) const {
    const std::size_t width = widths_.at(metal::buffer_of(slice)), stride = width + kGap;
    const T* data = static_cast<const T*>(metal::buffer_of(slice)->contents());
    std::vector<std::vector<T>> all;
    bool gaps_untouched = true;
    for (int r = 0; r < rows_; ++r) {
      const T* row = data + stride * static_cast<std::size_t>(r);
      all.emplace_back(row, row + width);
      for (std::size_t i = width; r + 1 < rows_ && i < stride; ++i) {
        float gap;
        std::memcpy(&gap, row + i, sizeof gap);
        gaps_untouched = gaps_untouched && is_untouched(gap);
      }
    }
    boost::ut::expect(gaps_untouched) << "a kernel wrote outside of its rows";
    return all;
  }

  int rows_;
  const graph::Dims dims_;
  int matrix_count_ = 0;
  graph::Step step_{};
  metal::layout::Step params_{};
  metal::layout::Run run_{};
  metal::BoundStep bound_{};
  std::vector<std::unique_ptr<link::Matrix>> matrices_;
  std::vector<metal::Owned<MTL::Buffer>> held_;
  std::map<MTL::Buffer*, std::size_t> widths_;
};

}  // namespace lapidary::test
