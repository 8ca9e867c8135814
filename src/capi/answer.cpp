// Answers: turn by turn under the model's lock, their events in a queue, the rows of their tokens beside it.
#include "capi/boundary.hpp"

#include "engine/stats.hpp"

using namespace lapidary;
using capi::attempt;
using capi::PendingEvent;
using capi::refuse;
using capi::Use;

namespace {

std::int32_t ending_of(engine::Ending ending) {
  switch (ending) {
    case engine::Ending::none: return LAPIDARY_ENDING_NONE;
    case engine::Ending::stop: return LAPIDARY_ENDING_STOP;
    case engine::Ending::stop_text: return LAPIDARY_ENDING_STOP_TEXT;
    case engine::Ending::tool_call: return LAPIDARY_ENDING_TOOL_CALL;
    case engine::Ending::max_tokens: return LAPIDARY_ENDING_MAX_TOKENS;
    case engine::Ending::context: return LAPIDARY_ENDING_CONTEXT;
    case engine::Ending::cancelled: return LAPIDARY_ENDING_CANCELLED;
  }
  return LAPIDARY_ENDING_NONE;
}

// Text goes on where there is some that nobody has pulled.
void add_text(std::deque<PendingEvent>& events, std::int32_t kind, const std::string& text) {
  if (text.empty()) return;
  if (!events.empty() && events.back().kind == kind) events.back().text += text;
  else events.push_back({.kind = kind, .text = text, .arguments = {}});
}

void add(std::deque<PendingEvent>& events, const engine::Event& event) {
  add_text(events, LAPIDARY_EVENT_THOUGHT, event.reasoning);
  add_text(events, LAPIDARY_EVENT_TEXT, event.content);
  for (const text::ToolCall& call : event.calls)
    events.push_back({.kind = LAPIDARY_EVENT_TOOL_CALL, .text = call.name, .arguments = text::to_json(call.arguments)});
}

void forget_rows(lapidary_session& session) {
  session.first_token = session.answer ? session.answer->result().ids.size() : 0;
  session.logits.clear();
  session.hidden.clear();
}

void take_token(lapidary_session& session) {
  engine::Answer& answer = *session.answer;
  const std::size_t tokens = answer.result().ids.size();
  const auto event = answer.turn();
  if (event) add(session.events, *event);
  if (!session.wants_rows || answer.result().ids.size() == tokens) return;
  session.logits.insert(session.logits.end(), answer.logits().begin(), answer.logits().end());
  session.hidden.insert(session.hidden.end(), answer.hidden().begin(), answer.hidden().end());
}

// A chunk of the prompt, or a round with all its tokens. Where the backend fails, the answer is over.
void turn(lapidary_session& session) {
  const std::lock_guard lock(session.model->turn);
  try {
    const engine::Answer& answer = *session.answer;
    do take_token(session);
    while (session.in_progress() && !answer.in_prompt() && !answer.wants_round());
    if (!session.in_progress())
      session.events.push_back({.kind = LAPIDARY_EVENT_END, .ending = ending_of(answer.result().ending), .text = {}, .arguments = {}});
  } catch (...) {
    session.answer.reset();
    throw;
  }
}

void begin(const Use& use, const lapidary_request* given) {
  lapidary_session& session = *use;
  capi::Request request = capi::read_request(session.model->model, given, session.cancel);
  {
    const std::lock_guard lock(session.model->turn);
    session.answer.reset();
  }
  session.events.clear();
  forget_rows(session);
  session.given_tokens = 0;
  session.cancel = false;
  session.wants_rows = request.options.wants_rows;
  session.answer.emplace(*session.conversation, std::move(request.prompt), request.options);
}

const engine::Answer& require_answer(const Use& use) {
  if (!use->answer) refuse(LAPIDARY_ERROR_USAGE, "[session] expected lapidary_begin() before this, got no answer");
  return *use->answer;
}

// False after the end.
bool pull(const Use& use) {
  lapidary_session& session = *use;
  if (session.events.empty()) forget_rows(session);
  while (session.events.empty()) {
    if (!session.in_progress()) return false;
    turn(session);
  }
  session.given_tokens = session.answer->result().ids.size();
  session.pulled = std::move(session.events.front());
  session.events.pop_front();
  return true;
}

lapidary_event event_of(const PendingEvent& pulled) {
  const bool call = pulled.kind == LAPIDARY_EVENT_TOOL_CALL;
  return {0, pulled.text.c_str(), pulled.text.size(), call ? pulled.arguments.c_str() : nullptr, pulled.arguments.size(), pulled.kind,
          pulled.ending};
}

void give_row(std::size_t token, const std::vector<float>& rows, std::size_t width, const float** row, std::size_t* count) {
  if (!row || !count) refuse(LAPIDARY_ERROR_USAGE, "[row] expected places for it and its length, got NULL");
  if (token >= rows.size() / width)
    fail(ErrorKind::usage, "row",
         "expected LAPIDARY_ROWS and one of the " + std::to_string(rows.size() / width) + " tokens of the last call, got " + std::to_string(token));
  *row = rows.data() + token * width;
  *count = width;
}

}  // namespace

lapidary_status lapidary_begin(lapidary_session* session, const lapidary_request* request, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    begin(use, request);
  });
}

lapidary_status lapidary_prefill(lapidary_session* session, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    require_answer(use);
    forget_rows(*use);
    while (use->in_progress() && use->answer->in_prompt()) turn(*use);
  });
}

lapidary_status lapidary_next(lapidary_session* session, int32_t* ids, size_t capacity, size_t* count, lapidary_error* error) {
  return attempt(error, [&]() -> lapidary_status {
    const Use use(session);
    require_answer(use);
    if (!count || !ids) refuse(LAPIDARY_ERROR_USAGE, "[ids] expected places for them and their count, got NULL");
    *count = 0;
    if (capacity < static_cast<std::size_t>(use->model->model.program.plan.verify_rows))
      refuse(LAPIDARY_ERROR_ROOM, "[capacity] expected that of a round, got less");
    const auto& all = use->answer->result().ids;
    if (all.size() == use->given_tokens) forget_rows(*use);
    while (use->in_progress() && all.size() == use->given_tokens) turn(*use);
    *count = all.size() - use->given_tokens;
    use->given_tokens = all.size();
    std::copy(all.end() - static_cast<std::ptrdiff_t>(*count), all.end(), ids);
    return *count > 0 ? LAPIDARY_OK : LAPIDARY_END;
  });
}

lapidary_status lapidary_pull(lapidary_session* session, lapidary_event* event, lapidary_error* error) {
  return attempt(error, [&]() -> lapidary_status {
    const Use use(session);
    require_answer(use);
    capi::write_sized(event, {}, "event");
    if (!pull(use)) return LAPIDARY_END;
    capi::write_sized(event, event_of(use->pulled), "event");
    return LAPIDARY_OK;
  });
}

lapidary_status lapidary_answer(lapidary_session* session, const lapidary_request* request, lapidary_on_event on_event, void* user,
                                lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    if (!on_event) refuse(LAPIDARY_ERROR_USAGE, "[on_event] expected a function, got NULL");
    begin(use, request);
    while (pull(use)) {
      lapidary_event event = event_of(use->pulled);
      event.size = sizeof event;
      if (on_event(user, &event) != 0) use->cancel = true;
    }
  });
}

lapidary_status lapidary_cancel(lapidary_session* session) {
  if (!capi::is_alive(session)) return LAPIDARY_ERROR_USAGE;
  session->cancel.store(true, std::memory_order_relaxed);
  return LAPIDARY_OK;
}

lapidary_status lapidary_end(lapidary_session* session, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    require_answer(use);
    use->cancel = true;
    while (use->in_progress()) turn(*use);
    use->events.clear();
    forget_rows(*use);
  });
}

lapidary_status lapidary_logits(lapidary_session* session, size_t token, const float** logits, size_t* count, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    give_row(token, use->logits, static_cast<std::size_t>(use->model->model.program.graph->shape.vocab), logits, count);
  });
}

lapidary_status lapidary_hidden(lapidary_session* session, size_t token, const float** hidden, size_t* count, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    give_row(token, use->hidden, static_cast<std::size_t>(use->model->model.program.graph->shape.hidden), hidden, count);
  });
}

lapidary_status lapidary_logprobs(lapidary_session* session, size_t token, lapidary_logprob* logprobs, size_t capacity, size_t* count,
                                  lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    const auto& all = require_answer(use).result().logprobs;
    const std::size_t first = std::min(use->first_token, all.size());
    if (token >= all.size() - first)
      fail(ErrorKind::usage, "logprobs",
           "expected LAPIDARY_LOGPROBS and one of the " + std::to_string(all.size() - first) + " tokens of the last call, got " +
               std::to_string(token));
    const decode::Logprobs& of_token = all[first + token];
    std::vector<lapidary_logprob> list{{of_token.chosen.id, of_token.chosen.logprob}};
    for (const decode::TokenLogprob& other : of_token.top) list.push_back({other.id, other.logprob});
    capi::write_list(list, logprobs, capacity, count);
  });
}

lapidary_status lapidary_statistics(lapidary_session* session, char* json, size_t capacity, size_t* json_bytes, lapidary_error* error) {
  return attempt(error, [&] {
    const Use use(session);
    const engine::Answer::Result none;
    const engine::Answer::Result& result = use->answer ? use->answer->result() : none;
    capi::write_list(text::to_json(engine::stats_of(use.conversation(), result)), json, capacity, json_bytes);
  });
}
