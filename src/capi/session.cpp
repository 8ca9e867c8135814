// Sessions: opened, copied, cut, saved and restored; the rows of given tokens.
#include "capi/boundary.hpp"

#include "engine/saved.hpp"

using namespace lapidary;
using capi::attempt;
using capi::refuse;
using capi::Use;

namespace {

// With the model's lock held.
lapidary_session& open(lapidary_model& model) {
  const auto closed = std::ranges::find_if(model.sessions, [](const auto& session) { return session->magic == 0 && !session->busy; });
  if (closed == model.sessions.end())
    fail(ErrorKind::usage, "sessions", "expected at most " + std::to_string(model.sessions.size()) + " at a time, got another");
  lapidary_session& session = **closed;
  session.conversation.emplace(model.model);
  session.model = &model;
  session.cancel = false;
  session.magic = lapidary_session::kMagic;
  return session;
}

// Likewise.
void close(lapidary_session& session) {
  session.magic = 0;
  session.answer.reset();
  session.conversation.reset();
  session.events.clear();
  session.pulled = {};
  session.logits = {};
  session.hidden = {};
}

// What the session has of the first `length` tokens.
std::int32_t kept_length(decode::Session& session, std::size_t length) {
  if (length > static_cast<std::size_t>(session.length()))
    fail(ErrorKind::usage, "length", "expected at most " + std::to_string(session.length()) + " tokens, got " + std::to_string(length));
  const auto kept = static_cast<std::int32_t>(length);
  if (!session.can_rollback(kept))
    fail(ErrorKind::usage, "length", "expected about a window before the last token at most, got " + std::to_string(length));
  return kept;
}

}  // namespace

lapidary_status lapidary_open_session(lapidary_model* model, lapidary_session** session, lapidary_error* error) {
  return attempt(error, [&] {
    if (!session) refuse(LAPIDARY_ERROR_USAGE, "[session] expected a place for it, got NULL");
    *session = nullptr;
    lapidary_model& alive = capi::model_of(model);
    const std::lock_guard lock(alive.turn);
    *session = &open(alive);
  });
}

lapidary_status lapidary_free_session(lapidary_session* session, lapidary_error* error) {
  return attempt(error, [&] {
    if (!session) return;
    const Use use(session);
    const std::lock_guard lock(use->model->turn);
    close(*use);
  });
}

lapidary_status lapidary_set_draft(lapidary_session* session, int32_t draft, int32_t draft_tokens, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    use.conversation().drafts = engine::choose_drafts(use->model->model.speculation, capi::draft_options(draft, draft_tokens));
  });
}

lapidary_status lapidary_tokens(lapidary_session* session, int32_t* ids, size_t capacity, size_t* count, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    capi::write_list(use.conversation().session.tokens(), ids, capacity, count);
  });
}

lapidary_status lapidary_rollback(lapidary_session* session, size_t length, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    capi::require_no_answer(use);
    const std::lock_guard lock(use->model->turn);
    decode::Session& text = use.conversation().session;
    text.rollback(kept_length(text, length));
  });
}

lapidary_status lapidary_fork(lapidary_session* session, size_t length, lapidary_session** fork, lapidary_error* error) {
  return attempt(error, [&] {
    if (!fork) refuse(LAPIDARY_ERROR_USAGE, "[fork] expected a place for it, got NULL");
    *fork = nullptr;
    const Use use(session);
    capi::require_no_answer(use);
    const std::lock_guard lock(use->model->turn);
    decode::Session& from = use.conversation().session;
    const std::int32_t kept = kept_length(from, length);
    lapidary_session& to = open(*use->model);
    try {
      to.conversation->session.copy(from, kept);
      to.conversation->drafts = use->conversation->drafts;
    } catch (...) {
      close(to);
      throw;
    }
    *fork = &to;
  });
}

lapidary_status lapidary_rows(lapidary_session* session, const int32_t* ids, size_t count, float* logits, size_t logits_capacity,
                              float* hidden, size_t hidden_capacity, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    capi::require_no_answer(use);
    const auto given = capi::required_list(ids, count, "ids");
    decode::Session& text = use.conversation().session;
    if (count > static_cast<std::size_t>(text.capacity() - text.length()))
      fail(ErrorKind::usage, "ids", "expected at most " + std::to_string(text.capacity() - text.length()) + ", got " + std::to_string(count));
    const auto vocab = static_cast<std::size_t>(text.vocab());
    const auto width = static_cast<std::size_t>(use->model->model.program.graph->shape.hidden);
    if ((logits && logits_capacity < count * vocab) || (hidden && hidden_capacity < count * width))
      refuse(LAPIDARY_ERROR_ROOM, "[capacity] expected a row of floats for each token, got less");
    decode::Session::Observer observer;
    observer.window = [&](std::int32_t first, std::int32_t rows) {
      for (std::int32_t i = 0; i < rows; ++i) {
        const auto row = static_cast<std::size_t>(first + i);
        if (logits) std::ranges::copy(text.logits(i), logits + row * vocab);
        if (hidden) std::ranges::copy(text.hidden(i), hidden + row * width);
      }
    };
    const std::lock_guard lock(use->model->turn);
    text.prefill_all(given, observer);
  });
}

lapidary_status lapidary_save(lapidary_session* session, const char* path, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    capi::require_no_answer(use);
    const std::lock_guard lock(use->model->turn);
    engine::save(use.conversation(), capi::required_text(path, "path"));
  });
}

lapidary_status lapidary_restore(lapidary_session* session, const char* path, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    capi::require_no_answer(use);
    const std::lock_guard lock(use->model->turn);
    engine::restore(use.conversation(), capi::required_text(path, "path"));
  });
}
