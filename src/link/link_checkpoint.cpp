#include <array>
#include <filesystem>
#include <utility>

#include "checkpoint/fingerprint.hpp"
#include "checkpoint/sha256.hpp"
#include "link/bind.hpp"
#include "link/link.hpp"

namespace lapidary::link {

using graph::Owner;
using graph::WeightClass;
using graph::WeightSlot;

namespace {

FileHashes hashes_of(const std::string& folder) {
  FileHashes hashes;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
      hashes[entry.path().filename().string()] = sha256_of_file(entry.path().string());
  return hashes;
}

// The vectors of slots, widened one behind the other into memory that is made for them.
class Widened {
 public:
  explicit Widened(std::size_t count) : all_(std::make_unique<float[]>(count)), next_(all_.get()) {}
  const float* add(const Binder& binder, const WeightSlot& slot) {
    if (slot.kind == WeightClass::kernel) binder.kernel(slot, next_);
    else binder.vector(slot, next_);
    return std::exchange(next_, next_ + std::size_t(slot.rows) * slot.cols);
  }
  std::unique_ptr<float[]> take() { return std::move(all_); }

 private:
  std::unique_ptr<float[]> all_;
  float* next_;
};

bool is_widened(const WeightSlot& slot) { return slot.kind == WeightClass::vector || slot.kind == WeightClass::kernel; }

void check_shape(const Checkpoint& checkpoint, const graph::Tower& tower) {
  const Config& config = checkpoint.config();
  const bool sees = tower.sense == graph::Sense::vision;
  const std::string key = sees ? "vision_config" : "audio_config";
  if (sees ? !config.vision : !config.audio)
    fail(ErrorKind::unsupported, checkpoint.folder(), key + ", expected a tower, got a model without it");
  if (sees ? *config.vision != tower.vision : *config.audio != tower.audio)
    fail(ErrorKind::no_graph, checkpoint.folder(), key + ", expected the shape that was compiled for this model, got another one; a build with -Dextra_graphs=FOLDER adds it");
}

TowerWeights bind(const Checkpoint& checkpoint, const graph::Graph& graph, const graph::Tower& tower) {
  check_shape(checkpoint, tower);
  const Owner owner = graph::owner_of(tower.sense);
  const Binder binder(checkpoint, owner);
  std::size_t floats = 0;
  for (const WeightSlot& slot : graph.weights) {
    if (slot.owner != owner) continue;
    binder.check_present(slot);
    if (is_widened(slot)) floats += std::size_t(slot.rows) * slot.cols;
  }
  Widened widened(floats);
  TowerWeights weights;
  for (const WeightSlot& slot : graph.weights) {
    Matrix& matrix = weights.matrices.emplace_back();
    const float*& vector = weights.vectors.emplace_back();
    if (slot.owner != owner) continue;
    if (is_widened(slot)) vector = widened.add(binder, slot);
    else matrix = binder.matrix(slot);
  }
  weights.constants = widened.take();
  return weights;
}

}  // namespace

Origin Origin::of(std::shared_ptr<const Checkpoint> checkpoint) {
  return {.folder = checkpoint->folder(), .model_type = checkpoint->config().model_type,
          .max_positions = checkpoint->config().shape.max_positions, .mappings = checkpoint->mappings(),
          .hashes = [folder = checkpoint->folder()] { return hashes_of(folder); },
          .fingerprint = [checkpoint] { return fingerprint_of(*checkpoint); }, .files = checkpoint};
}

Program link(Checkpoint checkpoint, std::optional<Checkpoint> assistant, const graph::Graph& graph, const Options& options,
             std::optional<Checkpoint> dflash) {
  const auto target = std::make_shared<const Checkpoint>(std::move(checkpoint));
  std::array<std::optional<Binder>, 3> binders;  // by Owner
  binders[0].emplace(*target, Owner::target);
  const auto add = [&](std::optional<Checkpoint>& drafter, Owner owner) -> std::optional<Origin> {
    if (!drafter) return std::nullopt;
    const auto shared = std::make_shared<const Checkpoint>(std::move(*drafter));
    binders[static_cast<std::size_t>(owner)].emplace(*shared, owner);
    return Origin::of(shared);
  };
  std::optional<Origin> assistant_origin = add(assistant, Owner::assistant), dflash_origin = add(dflash, Owner::dflash);
  Program program = begin_program(Origin::of(target), std::move(assistant_origin), graph, options, std::move(dflash_origin));
  const auto binder_of = [&](const WeightSlot& slot) -> const Binder* {
    const auto owner = static_cast<std::size_t>(slot.owner);
    return owner < binders.size() && binders[owner] ? &*binders[owner] : nullptr;
  };
  std::size_t floats = 0, integers = 0;
  for (const WeightSlot& slot : graph.weights) {
    const Binder* binder = binder_of(slot);
    if (!binder) continue;
    binder->check_present(slot);
    if (is_widened(slot)) floats += slot.cols;
    if (slot.kind == WeightClass::ids) integers += slot.cols;
  }
  Widened widened(floats);
  program.orders = std::make_unique<std::int32_t[]>(integers);
  std::int32_t* order = program.orders.get();
  for (const WeightSlot& slot : graph.weights) {
    Matrix& matrix = program.matrices.emplace_back();
    const float*& vector = program.vectors.emplace_back();
    const std::int32_t*& ids = program.ids.emplace_back();
    const Binder* binder = binder_of(slot);
    if (!binder) continue;
    if (is_widened(slot)) {
      vector = widened.add(*binder, slot);
    } else if (slot.kind == WeightClass::ids) {
      binder->ids(slot, order);
      ids = std::exchange(order, order + slot.cols);
    } else {
      matrix = binder->matrix(slot);
    }
  }
  program.constants = widened.take();
  program.bind_tower = [target, &graph](const graph::Tower& tower) { return bind(*target, graph, tower); };
  finish_program(program);
  return program;
}

}  // namespace lapidary::link
