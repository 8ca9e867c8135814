// Where C ends: handles are checked, structs of any version are read and filled, no exception gets out.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lapidary.h"

#include "checkpoint/error.hpp"
#include "engine/answer.hpp"

namespace lapidary::capi {

// What has no ErrorKind of its own.
struct Refusal {
  lapidary_status status;
  const char* message;  // a constant
};

[[noreturn]] inline void refuse(lapidary_status status, const char* message) { throw Refusal{status, message}; }

lapidary_status status_of(ErrorKind kind);
// Fills as much as the caller has room for. Allocates nothing.
lapidary_status report(lapidary_error* error, lapidary_status status, std::string_view where = {}, std::string_view what = {}) noexcept;

// The one way into the engine: `call` may throw, and may return a status.
template <class Call>
lapidary_status attempt(lapidary_error* error, Call&& call) noexcept {
  try {
    if constexpr (std::is_same_v<decltype(call()), lapidary_status>) {
      return report(error, call());
    } else {
      call();
      return report(error, LAPIDARY_OK);
    }
  } catch (const Refusal& refusal) {
    return report(error, refusal.status, "", refusal.message);
  } catch (const Error& failure) {
    return report(error, status_of(failure.kind), failure.where, failure.what);
  } catch (const std::bad_alloc&) {
    return report(error, LAPIDARY_ERROR_MEMORY, "memory", "expected more of it, got no more");
  } catch (const std::exception& failure) {
    return report(error, LAPIDARY_ERROR_INTERNAL, "lapidary", failure.what());
  } catch (...) {
    return report(error, LAPIDARY_ERROR_INTERNAL, "lapidary", "something that is no error was thrown");
  }
}

// A version's size is whole, and so no field of it is cut.
template <class Struct>
std::size_t size_of(const Struct* place, const char* where) {
  std::size_t size = 0;
  std::memcpy(&size, place, sizeof size);
  if (size < sizeof size || size > 4096 || size % alignof(Struct) != 0)
    fail(ErrorKind::usage, where, "size, expected that of the struct, got " + std::to_string(size));
  return size;
}

// A struct of the caller's version: what it does not have is zero, what we do not have must be.
template <class Struct>
Struct read_sized(const Struct* given, const char* where) {
  Struct taken{};
  taken.size = sizeof(Struct);
  if (!given) return taken;
  const std::size_t size = size_of(given, where);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(bytes + std::min(size, sizeof(Struct)), bytes + size, [](unsigned char byte) { return byte != 0; }))
    fail(ErrorKind::unsupported, where, "expected fields that this version knows, got others");
  std::memcpy(&taken, given, std::min(size, sizeof(Struct)));
  taken.size = sizeof(Struct);
  return taken;
}

// As much of it as the caller's version has.
template <class Struct>
void write_sized(Struct* place, Struct value, const char* where) {
  if (!place) fail(ErrorKind::usage, where, "expected a place for it, got NULL");
  value.size = size_of(place, where);
  std::memcpy(place, &value, std::min(value.size, sizeof(Struct)));
}

// Says how many there are, and gives them where they fit.
template <class T, class List>
void write_list(const List& list, T* place, std::size_t capacity, std::size_t* count) {
  if (!count) refuse(LAPIDARY_ERROR_USAGE, "[count] expected a place for it, got NULL");
  *count = list.size();
  if (capacity < list.size()) refuse(LAPIDARY_ERROR_ROOM, "[capacity] expected as much as the count says, got less");
  if (!list.empty() && !place) refuse(LAPIDARY_ERROR_USAGE, "[place] expected memory, got NULL");
  std::copy(list.begin(), list.end(), place);
}

inline const char* required_text(const char* text, const char* where) {
  if (!text) fail(ErrorKind::usage, where, "expected a text, got NULL");
  return text;
}

template <class T>
std::span<const T> required_list(const T* list, std::size_t count, const char* where) {
  if (!list && count > 0) fail(ErrorKind::usage, where, "expected a list, got NULL");
  return {list, count};
}

// An event that waits to be pulled.
struct PendingEvent {
  std::int32_t kind = 0;
  std::int32_t ending = LAPIDARY_ENDING_NONE;
  std::string text, arguments;
};

}  // namespace lapidary::capi

// They stay with the model, open or not, so that one that was freed is known as such.
struct lapidary_session {
  static constexpr std::uint64_t kMagic = 0x7365737369306e01;

  std::uint64_t magic = 0;  // kMagic while it is open
  lapidary_model* model = nullptr;
  std::atomic<bool> busy = false, cancel = false;
  std::optional<lapidary::engine::Conversation> conversation{};
  std::optional<lapidary::engine::Answer> answer{};  // the last one
  bool wants_rows = false;
  std::deque<lapidary::capi::PendingEvent> events{};
  lapidary::capi::PendingEvent pulled{};             // what the caller has pointers into
  std::size_t given_tokens = 0;                      // of the answer, to the caller
  std::size_t first_token = 0;                       // of the answer, that was computed last
  std::vector<float> logits{}, hidden{};             // from that token on, [tokens, vocab] and [tokens, hidden], where they are wanted

  bool in_progress() const { return answer && answer->result().ending == lapidary::engine::Ending::none; }
};

struct lapidary_model {
  static constexpr std::uint64_t kMagic = 0x6d6f64656c307002;

  explicit lapidary_model(const lapidary::engine::ModelOptions& options) : model(options) {
    for (int i = 0; i < model.program.plan.sessions; ++i) sessions.push_back(std::make_unique<lapidary_session>());
  }

  std::uint64_t magic = kMagic;
  mutable std::mutex turn;  // the executor's, and that of the list of sessions
  lapidary::engine::Model model;
  std::vector<std::unique_ptr<lapidary_session>> sessions;
};

namespace lapidary::capi {

template <class Handle>
bool is_alive(const Handle* handle) {
  if (!handle || reinterpret_cast<std::uintptr_t>(handle) % alignof(Handle) != 0) return false;
  std::uint64_t magic = 0;
  std::memcpy(&magic, &handle->magic, sizeof magic);
  return magic == Handle::kMagic;
}

template <class Model>
Model& model_of(Model* model) {
  if (!is_alive(model)) refuse(LAPIDARY_ERROR_USAGE, "[model] expected one that is loaded, got something else");
  return *model;
}

// The session while a call uses it.
class Use {
 public:
  explicit Use(lapidary_session* session) : session_(session) {
    if (!is_alive(session)) refuse(LAPIDARY_ERROR_USAGE, "[session] expected one that is open, got something else");
    if (session->busy.exchange(true, std::memory_order_acquire))
      refuse(LAPIDARY_ERROR_BUSY, "[session] expected one call at a time, got another");
  }
  ~Use() { session_->busy.store(false, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  lapidary_session* operator->() const { return session_; }
  lapidary_session& operator*() const { return *session_; }
  engine::Conversation& conversation() const { return *session_->conversation; }

 private:
  lapidary_session* session_;
};

inline void require_no_answer(const Use& use) {
  if (use->in_progress()) refuse(LAPIDARY_ERROR_USAGE, "[session] expected no answer in progress, got one: lapidary_end() ends it");
}

engine::ModelOptions model_options(const char* folder, const lapidary_model_options* options);
engine::DraftOptions draft_options(std::int32_t kind, std::int32_t tokens);
// The parts of a request. JSON is read here; `cancel` is the session's.
struct Request {
  engine::Prompt prompt;
  engine::AnswerOptions options;
};
Request read_request(const engine::Model& model, const lapidary_request* request, std::atomic<bool>& cancel);
engine::Prompt render(const engine::Model& model, const char* messages, const char* tools, bool think,
                      std::span<const engine::Medium> media = {});
// Decodes them, which may take a while.
std::vector<engine::Medium> media_of(const engine::Model& model, std::span<const lapidary_medium* const> given);

// The backend by its name, or the best there is.
void choose_backend(engine::ModelOptions& options, const char* name);

}  // namespace lapidary::capi
