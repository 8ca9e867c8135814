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

}  // namespace

Origin Origin::of(std::shared_ptr<const Checkpoint> checkpoint) {
  return {.folder = checkpoint->folder(), .model_type = checkpoint->config().model_type,
          .max_positions = checkpoint->config().shape.max_positions, .mappings = checkpoint->mappings(),
          .hashes = [folder = checkpoint->folder()] { return hashes_of(folder); },
          .fingerprint = [checkpoint] { return fingerprint_of(*checkpoint); }, .files = checkpoint};
}

Program link(Checkpoint checkpoint, std::optional<Checkpoint> assistant, const graph::Graph& graph, const Options& options) {
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints{std::make_shared<const Checkpoint>(std::move(checkpoint))};  // by Owner
  if (assistant) checkpoints.push_back(std::make_shared<const Checkpoint>(std::move(*assistant)));
  Program program = begin_program(Origin::of(checkpoints[0]), assistant ? std::optional(Origin::of(checkpoints[1])) : std::nullopt,
                                  graph, options);
  std::vector<Binder> binders;  // by Owner
  for (std::size_t owner = 0; owner < checkpoints.size(); ++owner) binders.emplace_back(*checkpoints[owner], static_cast<Owner>(owner));
  const auto binder_of = [&](const WeightSlot& slot) {
    const auto owner = static_cast<std::size_t>(slot.owner);
    return owner < binders.size() ? &binders[owner] : nullptr;
  };
  std::size_t floats = 0, integers = 0;
  for (const WeightSlot& slot : graph.weights) {
    const Binder* binder = binder_of(slot);
    if (!binder) continue;
    binder->check_present(slot);
    if (slot.kind == WeightClass::vector) floats += slot.cols;
    if (slot.kind == WeightClass::ids) integers += slot.cols;
  }
  program.constants = std::make_unique<float[]>(floats);
  program.orders = std::make_unique<std::int32_t[]>(integers);
  float* constant = program.constants.get();
  std::int32_t* order = program.orders.get();
  for (const WeightSlot& slot : graph.weights) {
    Matrix& matrix = program.matrices.emplace_back();
    const float*& vector = program.vectors.emplace_back();
    const std::int32_t*& ids = program.ids.emplace_back();
    const Binder* binder = binder_of(slot);
    if (!binder) continue;
    if (slot.kind == WeightClass::vector) {
      binder->vector(slot, constant);
      vector = std::exchange(constant, constant + slot.cols);
    } else if (slot.kind == WeightClass::ids) {
      binder->ids(slot, order);
      ids = std::exchange(order, order + slot.cols);
    } else {
      matrix = binder->matrix(slot);
    }
  }
  finish_program(program);
  return program;
}

}  // namespace lapidary::link
