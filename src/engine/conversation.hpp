// One text in the making: its place in the model and what has been computed of it.
#pragma once

#include "decode/session.hpp"
#include "engine/model.hpp"

namespace lapidary::engine {

struct Conversation {
  // `model` must outlive it.
  explicit Conversation(Model& model)
      : model(model), slot(model), session(model.program, *model.executor, slot.number()) {}

  Model& model;
  const Slot slot;
  decode::Session session;
  std::optional<decode::DraftChoice> drafts{};  // of its answers; none = as the model has them
};

}  // namespace lapidary::engine
