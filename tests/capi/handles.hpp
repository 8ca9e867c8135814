// pebble behind the C API, with handles that free themselves.
#pragma once

#include <string>
#include <vector>

#include <boost/ut.hpp>

#include "lapidary.h"

#include "support/cases.hpp"

namespace lapidary::test {

using Ids = std::vector<std::int32_t>;

inline const std::string kPebble = kRoot + "/models/pebble";
inline const char* const kCapital = R"([{"role":"user","content":"What is the capital of Norway?"}])";
inline const char* const kStory = R"([{"role":"user","content":"Tell me a story."}])";

inline lapidary_model_options small_options(int sessions = 1) {
  lapidary_model_options options = LAPIDARY_INIT(lapidary_model_options);
  options.context_tokens = 256;
  options.sessions = sessions;
  options.threads = 1;
  return options;
}

// A call that must succeed.
struct Expected {
  lapidary_error error = LAPIDARY_INIT(lapidary_error);
  ~Expected() { boost::ut::expect(error.status >= 0) << error.message; }
  operator lapidary_error*() { return &error; }
};

class OwnedSession {
 public:
  explicit OwnedSession(lapidary_model* model) { lapidary_open_session(model, &session_, Expected()); }
  explicit OwnedSession(lapidary_session* session) : session_(session) {}
  ~OwnedSession() { lapidary_free_session(session_, Expected()); }
  OwnedSession(const OwnedSession&) = delete;
  OwnedSession& operator=(const OwnedSession&) = delete;
  operator lapidary_session*() const { return session_; }

 private:
  lapidary_session* session_ = nullptr;
};

class OwnedModel {
 public:
  explicit OwnedModel(int sessions = 1) : OwnedModel(small_options(sessions)) {}
  explicit OwnedModel(const lapidary_model_options& options) { lapidary_load(kPebble.c_str(), &options, &model_, Expected()); }
  ~OwnedModel() { lapidary_free_model(model_, Expected()); }
  OwnedModel(const OwnedModel&) = delete;
  OwnedModel& operator=(const OwnedModel&) = delete;
  operator lapidary_model*() const { return model_; }

  Ids tokenize(const std::string& text, std::uint32_t flags = LAPIDARY_TOKENIZE_BOS) const {
    Ids ids(text.size() + 1);
    std::size_t count = 0;
    lapidary_tokenize(model_, text.data(), text.size(), flags, ids.data(), ids.size(), &count, Expected());
    ids.resize(count);
    return ids;
  }

 private:
  lapidary_model* model_ = nullptr;
};

// How to ask, with what it points to.
struct Question {
  lapidary_sampling sampling = LAPIDARY_INIT(lapidary_sampling);
  lapidary_request request = LAPIDARY_INIT(lapidary_request);
  Ids ids;
  std::vector<lapidary_bias> bias;

  explicit Question(const char* messages) {
    request.messages = messages;
    choose(0.0f, 0);
  }
  explicit Question(Ids prompt) : ids(std::move(prompt)) {
    request.ids = ids.data();
    request.id_count = ids.size();
    choose(0.0f, 0);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  Question& choose(float temperature, std::uint64_t seed) {
    sampling.given = LAPIDARY_GIVEN_TEMPERATURE | LAPIDARY_GIVEN_SEED;
    sampling.temperature = temperature;
    sampling.seed = seed;
    request.sampling = &sampling;
    return *this;
  }
  // Does not end by itself before the context is full, or so many tokens are there.
  Question& endless(std::uint64_t seed, std::int32_t max_tokens = 0) {
    choose(1.0f, seed);
    bias = {{1, -100.0f}, {6, -100.0f}};
    sampling.bias = bias.data();
    sampling.bias_count = bias.size();
    request.max_tokens = max_tokens;
    return *this;
  }
};

struct Told {
  std::string text, thought;
  std::vector<std::string> calls;
  std::int32_t ending = LAPIDARY_ENDING_NONE;
};

inline void take(Told& told, const lapidary_event& event) {
  const std::string text(event.text, event.text_bytes);
  switch (event.kind) {
    case LAPIDARY_EVENT_TEXT: told.text += text; break;
    case LAPIDARY_EVENT_THOUGHT: told.thought += text; break;
    case LAPIDARY_EVENT_TOOL_CALL: told.calls.push_back(text + std::string(event.arguments, event.arguments_bytes)); break;
    default: told.ending = event.ending; break;
  }
}

inline Told pull_all(lapidary_session* session) {
  Told told;
  lapidary_event event = LAPIDARY_INIT(lapidary_event);
  while (lapidary_pull(session, &event, Expected()) == LAPIDARY_OK) take(told, event);
  return told;
}

// The tokens of all rounds.
inline Ids generate(lapidary_session* session, const Question& question) {
  lapidary_begin(session, &question.request, Expected());
  Ids all, round(8);
  std::size_t count = 0;
  while (lapidary_next(session, round.data(), round.size(), &count, Expected()) == LAPIDARY_OK)
    all.insert(all.end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
  return all;
}

inline Ids tokens_of(lapidary_session* session) {
  Ids ids(256);
  std::size_t count = 0;
  lapidary_tokens(session, ids.data(), ids.size(), &count, Expected());
  ids.resize(count);
  return ids;
}

}  // namespace lapidary::test
