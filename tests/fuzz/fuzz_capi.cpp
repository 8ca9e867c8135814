// Any sequence of calls, with right and wrong arguments, to sessions that are open, freed or never were: a status, never a crash, and
// no answer of more tokens than were asked for.
#include <array>
#include <vector>

#include "fuzz/tiny.hpp"

namespace {

using namespace lapidary::fuzz;

constexpr const char* kMessages[] = {nullptr, "[{\"role\":\"user\",\"content\":\"a\"}]", "[{\"role\":\"user\"}]", "[", "7", "[]",
                                     "[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"}]"};
constexpr const char* kTools[] = {nullptr, "[]", "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]", "{}"};
constexpr const char* kSchemas[] = {nullptr, nullptr, "{\"type\":\"integer\"}", "{\"enum\":[\"x\",1]}", "{\"type\":3}", "{"};

// Lists and texts for one call; they live until it returns.
struct Arguments {
  std::vector<std::int32_t> ids;
  std::array<const char*, 2> stops{};
  std::array<lapidary_bias, 2> bias{};
  lapidary_sampling sampling = LAPIDARY_INIT(lapidary_sampling);
  lapidary_request request = LAPIDARY_INIT(lapidary_request);

  explicit Arguments(Bytes& bytes) {
    for (int left = bytes.next() % 100; left > 0; --left) ids.push_back(left % 31 == 7 ? bytes.next() * 3 - 9 : bytes.next() % kVocab);
    if (const char* messages = kMessages[bytes.next() % std::size(kMessages)]) request.messages = messages;
    else request.ids = ids.data(), request.id_count = ids.size();
    request.tools = kTools[bytes.next() % std::size(kTools)];
    request.schema = kSchemas[bytes.next() % std::size(kSchemas)];
    request.flags = bytes.next() % 40;
    request.reading = bytes.next() % 8 == 0 ? 5 : bytes.next() % 3;
    request.max_tokens = bytes.next() % 20 - 1;
    request.top_logprobs = bytes.next() % 5;
    if (bytes.next() % 2) {
      stops = {"a", bytes.next() % 4 ? "bc" : ""};
      request.stops = stops.data();
      request.stop_count = bytes.next() % 3;
    }
    sampling.given = bytes.next() % 70;
    sampling.temperature = static_cast<float>(bytes.next()) / 50.0f - 0.1f;
    sampling.top_p = static_cast<float>(bytes.next()) / 200.0f;
    sampling.top_k = bytes.next() - 2;
    sampling.repetition = static_cast<float>(bytes.next()) / 100.0f;
    sampling.presence = static_cast<float>(bytes.next()) - 20.0f;
    bias = {{{bytes.next() * 2 - 5, 1.5f}, {7, -3.0f}}};
    sampling.bias = bytes.next() % 5 ? bias.data() : nullptr;
    sampling.bias_count = bytes.next() % 3;
    if (bytes.next() % 2) request.sampling = &sampling;
    if (bytes.next() % 16 == 0) request.size = bytes.next() % (sizeof request + 1);
    if (bytes.next() % 16 == 0) sampling.size = bytes.next() % (sizeof sampling + 1);
  }
};

int cancel_some(void* user, const lapidary_event* event) {
  check(event->kind >= LAPIDARY_EVENT_TEXT && event->kind <= LAPIDARY_EVENT_END && event->text[event->text_bytes] == '\0');
  return static_cast<Bytes*>(user)->next() % 8 == 0;
}

lapidary_status play(Bytes& bytes, lapidary_session*& session, lapidary_error* error) {
  std::array<std::int32_t, 64> ids{};
  std::array<char, 8192> text{};
  std::array<lapidary_logprob, 8> logprobs{};
  std::size_t count = 0;
  const float* row = nullptr;
  lapidary_event event = LAPIDARY_INIT(lapidary_event);
  lapidary_session* made = nullptr;
  switch (bytes.next() % 20) {
    case 0: return session ? lapidary_prefill(session, error) : lapidary_open_session(tiny().model(), &session, error);
    case 1: return lapidary_free_session(session, error);  // the handle stays, to be used again
    case 2:
    case 3: {
      const Arguments arguments(bytes);
      return lapidary_begin(session, &arguments.request, error);
    }
    case 4: return lapidary_prefill(session, error);
    case 5:
    case 6: {
      const lapidary_status status = lapidary_next(session, ids.data(), bytes.next() % 16 ? ids.size() : 7, &count, error);
      check((status == LAPIDARY_OK) == (count > 0) && count <= 8);
      return status;
    }
    case 7:
    case 8: return lapidary_pull(session, &event, error);
    case 9: {
      const Arguments arguments(bytes);
      return lapidary_answer(session, &arguments.request, cancel_some, &bytes, error);
    }
    case 10: return lapidary_end(session, error);
    case 11: return lapidary_rollback(session, bytes.next() % 90, error);
    case 12: {
      const lapidary_status status = lapidary_fork(session, bytes.next() % 90, &made, error);
      if (made) check(status == LAPIDARY_OK && lapidary_free_session(made, nullptr) == LAPIDARY_OK);
      return status;
    }
    case 13: return lapidary_tokens(session, ids.data(), ids.size(), &count, error);
    case 14: {
      std::vector<float> logits(kVocab * 8);
      for (int i = 0; i < 8; ++i) ids[static_cast<std::size_t>(i)] = bytes.next() - (bytes.next() % 32 == 0);
      return lapidary_rows(session, ids.data(), bytes.next() % 10, logits.data(), logits.size(), nullptr, 0, error);
    }
    case 15: return lapidary_logits(session, bytes.next() % 9, &row, &count, error);
    case 16: return lapidary_logprobs(session, bytes.next() % 9, logprobs.data(), logprobs.size(), &count, error);
    case 17: return lapidary_statistics(session, text.data(), text.size(), &count, error);
    case 18: return lapidary_set_draft(session, bytes.next() % 6 - 1, bytes.next() % 10 - 1, error);
    default: return lapidary_cancel(session);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  tiny();
  std::array<lapidary_session*, 3> sessions{};
  check(lapidary_open_session(tiny().model(), &sessions[0], nullptr) == LAPIDARY_OK);
  for (int calls = 0; !bytes.empty() && calls < 60; ++calls) {
    lapidary_error error = LAPIDARY_INIT(lapidary_error);
    const lapidary_status status = play(bytes, sessions[bytes.next() % sessions.size()], &error);
    check(status != LAPIDARY_ERROR_INTERNAL && status >= LAPIDARY_ERROR_UNSUPPORTED && status <= LAPIDARY_END);
  }
  for (lapidary_session* session : sessions) lapidary_free_session(session, nullptr);
  return 0;
}
