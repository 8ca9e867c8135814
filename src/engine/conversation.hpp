// One text in the making: its place in the model, what has been computed of it, and who drafts for it.
#pragma once

#include "decode/session.hpp"
#include "decode/speculation.hpp"
#include "engine/model.hpp"

namespace lapidary::engine {

struct Conversation {
  // `model` must outlive it.
  explicit Conversation(Model& model)
      : model(model), slot(model), session(model.program, *model.executor, slot.number()),
        speculation(make_speculation(model.draft, model.program)) {}

  Model& model;
  const Slot slot;
  decode::Session session;
  decode::Speculation speculation;
};

}  // namespace lapidary::engine
