#include "metal/tower.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "link/percept.hpp"
#include "metal/device_memory.hpp"
#include "metal/replay.hpp"

namespace lapidary::metal {

using graph::RowSet;
using graph::Tower;

namespace {

constexpr RowSet kRowSets[] = {RowSet::percept, RowSet::halved, RowSet::soft, RowSet::distances};
constexpr std::size_t kRunStride = (sizeof(layout::Run) + 255) / 256 * 256;

std::size_t input_bytes(const link::MemoryPlan& plan, const Tower& tower) {
  return static_cast<std::size_t>(plan.max_rows(tower)) * static_cast<std::size_t>(tower.input_width) * sizeof(float);
}

std::size_t soft_bytes(const link::MemoryPlan& plan, const Tower& tower) {
  const std::int32_t tokens = tower.sense == graph::Sense::vision ? plan.image_tokens : tower.soft_tokens(plan.max_rows(tower), 1);
  return static_cast<std::size_t>(tokens) * static_cast<std::size_t>(tower.soft_width) * sizeof(float);
}

std::size_t params_bytes(const Tower& tower) { return tower.segment.steps.size() * DeviceMemory::kParamsStride; }

// Of the tower that takes most.
std::size_t most_bytes(const link::Program& program, std::size_t (*bytes_of)(const link::MemoryPlan&, const Tower&)) {
  std::size_t most = 0;
  for (const Tower& tower : program.graph->towers) most = std::max(most, bytes_of(program.plan, tower));
  return most;
}

}  // namespace

std::size_t tower_room_bytes(const link::Program& program) {
  if (program.graph->towers.empty()) return 0;
  std::size_t bytes = most_bytes(program, input_bytes) + most_bytes(program, soft_bytes) + std::size(kRowSets) * kRunStride;
  for (const Tower& tower : program.graph->towers) bytes += params_bytes(tower);
  return bytes;
}

void Towers::allocate() {
  arena_ = gpu_.allocate(program_.plan.tower_bytes, "towers");
  percept_ = gpu_.allocate(most_bytes(program_, input_bytes), "percept");
  soft_ = gpu_.allocate(most_bytes(program_, soft_bytes), "soft tokens");
  runs_ = gpu_.allocate(std::size(kRowSets) * kRunStride, "runs of towers");
}

Slice Towers::run_of(RowSet set) const {
  const auto number = static_cast<std::size_t>(std::ranges::find(kRowSets, set) - std::begin(kRowSets));
  return {runs_.get(), number * kRunStride};
}

// All buffers of a tower have room for its largest input, so that nothing of a recording depends on the percept.
BoundOperand Towers::bind_operand(const Tower& tower, graph::BufferId id) const {
  const auto width = [](std::int32_t floats) { return static_cast<std::uint32_t>(floats) * std::uint32_t{sizeof(float)}; };
  if (id == graph::kNone) return {};
  if (id == graph::kPercept) return {{percept_.get(), 0}, {0, width(tower.input_width), 0}};
  if (id == graph::kSoft) return {{soft_.get(), 0}, {0, width(tower.soft_width), 0}};
  const graph::Buffer& buffer = tower.segment.buffers[static_cast<std::size_t>(id)];
  const auto capacity = static_cast<std::size_t>(tower.buffer_rows(program_.plan.max_rows(tower)));
  return {{arena_.get(), static_cast<std::size_t>(buffer.offset) * capacity}, {0, static_cast<std::uint32_t>(row_stride(buffer)), 0}};
}

void Towers::bind(const Tower& tower) {
  std::optional<Bound>& place = bound_[static_cast<std::size_t>(tower.sense)];
  if (place) return;
  link::TowerWeights origin = program_.bind_tower(tower);
  if (!arena_) allocate();
  Weights weights(gpu_, files_, *program_.graph, {origin.matrices, origin.vectors, {}});
  Bound bound{std::move(origin), std::move(weights), gpu_.allocate(params_bytes(tower), "steps of a tower"), {}};
  const BindOperand operands = [&](graph::BufferId id) { return bind_operand(tower, id); };
  bound.steps = record_steps(gpu_, program_, tower.segment, false, [&](std::size_t i) {
    const graph::Step& step = tower.segment.steps[i];
    BoundStep one = bind_step(step, operands, bound.weights);
    one.numeric = NumericClass::prompt;
    one.rows = program_.plan.max_rows(tower);
    one.params = {bound.params.get(), i * DeviceMemory::kParamsStride};
    one.run = run_of(step.rows);
    *contents<layout::Step>(one.params) = placed_params(step, operands, bound.weights);
    return one;
  });
  gpu_.keep_pipelines();
  place.emplace(std::move(bound));
}

void Towers::write_runs(const Tower& tower, const link::Percept& percept) {
  std::int32_t before = percept.rows;  // frames that a convolution sees
  for (const RowSet set : kRowSets) {
    layout::Run run{};
    run.row_count = link::rows_of(tower, set, percept);
    run.columns = percept.columns;
    run.input_rows = set == RowSet::percept ? run.row_count : std::exchange(before, run.row_count);
    *contents<layout::Run>(run_of(set)) = run;
  }
}

void Towers::take(const Tower& tower, const link::Percept& percept) {
  const Pool pool;
  bind(tower);
  std::memcpy(percept_->contents(), percept.values.data(), percept.values.size_bytes());
  write_runs(tower, percept);
}

void Towers::encode(MTL::ComputeCommandEncoder* encoder, const Tower& tower, const link::Percept& percept) const {
  for (const RecordedStep& step : bound_[static_cast<std::size_t>(tower.sense)]->steps)
    metal::encode(encoder, step, link::rows_of(tower, step.step->rows, percept));
}

void Towers::give(const Tower& tower, std::span<float> soft, std::span<float> tower_rows) const {
  std::memcpy(soft.data(), soft_->contents(), soft.size_bytes());
  if (tower_rows.empty()) return;
  const auto width = static_cast<std::size_t>(tower.tower_width);
  const BoundOperand rows = bind_operand(tower, graph::kTowerRows);
  for (std::size_t r = 0; r < tower_rows.size() / width; ++r)
    std::memcpy(tower_rows.data() + r * width, contents<std::byte>(rows.slice) + r * rows.operand.row_bytes, width * sizeof(float));
}

}  // namespace lapidary::metal
