// Wrong calls get an error code and a message, and leave everything usable. Structs of other versions work.
#include "capi/handles.hpp"

#include <cmath>
#include <cstring>

namespace lapidary::test::misuse_test {
namespace {

using namespace boost::ut;

template <class Call>
std::string message_of(lapidary_status expected, Call&& call) {
  lapidary_error error = LAPIDARY_INIT(lapidary_error);
  const lapidary_status status = call(&error);
  expect(status == expected) << lapidary_status_name(status) << error.message;
  expect(error.status == status && (error.message[0] != '\0') == (status < 0));
  return error.message;
}

const suite<"misuse"> misuse = [] {
  "null and foreign handles are refused by every function"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    alignas(16) char bytes[512] = {};
    auto* const foreign_model = reinterpret_cast<lapidary_model*>(bytes);
    auto* const foreign = reinterpret_cast<lapidary_session*>(bytes);
    auto* const odd = reinterpret_cast<lapidary_session*>(bytes + 1);
    lapidary_model_info info = LAPIDARY_INIT(lapidary_model_info);
    lapidary_session* opened = nullptr;
    std::size_t count = 0;
    for (lapidary_model* none : {static_cast<lapidary_model*>(nullptr), foreign_model}) {
      expect(lapidary_describe(none, &info, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_open_session(none, &opened, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_tokenize(none, "a", 1, 0, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_detokenize(none, nullptr, 0, 0, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_render(none, kCapital, nullptr, 0, nullptr, 0, &count, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
    }
    expect(lapidary_free_model(nullptr, nullptr) == LAPIDARY_OK && lapidary_free_session(nullptr, nullptr) == LAPIDARY_OK);
    expect(lapidary_free_model(foreign_model, nullptr) == LAPIDARY_ERROR_USAGE);
    const float* row = nullptr;
    lapidary_event event = LAPIDARY_INIT(lapidary_event);
    Question capital(kCapital);
    for (lapidary_session* none : {static_cast<lapidary_session*>(nullptr), foreign, odd}) {
      if (none) expect(lapidary_free_session(none, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_tokens(none, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_rollback(none, 0, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_fork(none, 0, &opened, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_rows(none, nullptr, 0, nullptr, 0, nullptr, 0, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_save(none, "x", nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_restore(none, "x", nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_begin(none, &capital.request, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_prefill(none, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_next(none, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_pull(none, &event, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_answer(none, &capital.request, nullptr, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_cancel(none) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_end(none, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_logits(none, 0, &row, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_hidden(none, 0, &row, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_logprobs(none, 0, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_statistics(none, nullptr, 0, &count, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_set_draft(none, LAPIDARY_DRAFT_NONE, 0, nullptr) == LAPIDARY_ERROR_USAGE);
    }
  };

  "a session that was freed is refused, and a model that has open ones is kept"_test = [] {
    const OwnedModel model(2);
    lapidary_session *first = nullptr, *second = nullptr, *third = nullptr;
    lapidary_open_session(model, &first, Expected());
    lapidary_open_session(model, &second, Expected());
    expect(message_of(LAPIDARY_ERROR_USAGE, [&](lapidary_error* error) { return lapidary_open_session(model, &third, error); }) ==
           "[sessions] expected at most 2 at a time, got another");
    expect(third == nullptr);
    expect(message_of(LAPIDARY_ERROR_USAGE, [&](lapidary_error* error) { return lapidary_free_model(model, error); }) ==
           "[model] expected its sessions to be freed first, got some that are open");
    lapidary_free_session(first, Expected());
    expect(lapidary_free_session(first, nullptr) == LAPIDARY_ERROR_USAGE && lapidary_cancel(first) == LAPIDARY_ERROR_USAGE);
    Question capital(kCapital);
    expect(lapidary_begin(first, &capital.request, nullptr) == LAPIDARY_ERROR_USAGE);
    lapidary_begin(second, &capital.request, Expected());  // freed in the middle of an answer
    lapidary_prefill(second, Expected());
    lapidary_free_session(second, Expected());
  };

  "calls out of order are refused"_test = [] {
    const OwnedModel model(2);
    const OwnedSession session(model);
    Ids round(8);
    std::size_t count = 0;
    lapidary_event event = LAPIDARY_INIT(lapidary_event);
    expect(lapidary_prefill(session, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(lapidary_next(session, round.data(), 8, &count, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(lapidary_pull(session, &event, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(lapidary_end(session, nullptr) == LAPIDARY_ERROR_USAGE);
    Question story(kStory);
    story.endless(1, 30);
    lapidary_begin(session, &story.request, Expected());
    lapidary_session* fork = nullptr;
    const std::int32_t id = 5;
    for (int when = 0; when < 2; ++when) {  // before and after the prompt
      expect(lapidary_fork(session, 0, &fork, nullptr) == LAPIDARY_ERROR_USAGE && fork == nullptr);
      expect(lapidary_rollback(session, 0, nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_save(session, "nowhere", nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_restore(session, "nowhere", nullptr) == LAPIDARY_ERROR_USAGE);
      expect(lapidary_rows(session, &id, 1, nullptr, 0, nullptr, 0, nullptr) == LAPIDARY_ERROR_USAGE);
      lapidary_prefill(session, Expected());
    }
    lapidary_next(session, round.data(), 8, &count, Expected());
    lapidary_end(session, Expected());
    expect(lapidary_next(session, round.data(), 8, &count, nullptr) == LAPIDARY_END);
    expect(lapidary_pull(session, &event, nullptr) == LAPIDARY_END) << "its events are forgotten";
    lapidary_rollback(session, 3, Expected());
    expect(generate(session, story).size() == 30u);
  };

  "a callback cannot use its session"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    struct Seen {
      lapidary_session* session;
      std::vector<lapidary_status> statuses;
    } seen{session, {}};
    Question capital(kCapital);
    lapidary_answer(session, &capital.request, [](void* user, const lapidary_event*) {
      auto& inside = *static_cast<Seen*>(user);
      inside.statuses.push_back(lapidary_prefill(inside.session, nullptr));
      inside.statuses.push_back(lapidary_free_session(inside.session, nullptr));
      return 0;
    }, &seen, Expected());
    expect(seen.statuses.size() >= 4u) << "text, and the end";
    for (const lapidary_status status : seen.statuses) expect(status == LAPIDARY_ERROR_BUSY);
  };

  "wrong arguments are refused with what was expected, and the session goes on"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    const auto refused = [&](lapidary_status expected, auto&& change) {
      Question question(kCapital);
      change(question.request, question.sampling);
      return message_of(expected, [&](lapidary_error* error) { return lapidary_begin(session, &question.request, error); });
    };
    using Request = lapidary_request;
    using Sampling = lapidary_sampling;
    const Ids ids = {2, 5};
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.messages = nullptr; });
    refused(LAPIDARY_ERROR_USAGE, [&](Request& r, Sampling&) { r.ids = ids.data(), r.id_count = 2; });
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.id_count = 2; });
    refused(LAPIDARY_ERROR_DATA, [](Request& r, Sampling&) { r.messages = "[{"; });
    refused(LAPIDARY_ERROR_DATA, [](Request& r, Sampling&) { r.messages = "\xff"; });
    refused(LAPIDARY_ERROR_DATA, [](Request& r, Sampling&) { r.messages = "{}"; });
    refused(LAPIDARY_ERROR_DATA, [](Request& r, Sampling&) { r.tools = "[1]"; });
    refused(LAPIDARY_ERROR_DATA, [](Request& r, Sampling&) { r.schema = "{\"type\":1}"; });
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.flags = LAPIDARY_STRICT_TOOLS; });
    refused(LAPIDARY_ERROR_UNSUPPORTED, [](Request& r, Sampling&) { r.flags = 1u << 30; });
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.max_tokens = -1; });
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.stop_count = 1; });
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.flags = LAPIDARY_LOGPROBS, r.top_logprobs = 1001; });
    refused(LAPIDARY_ERROR_USAGE, [](Request&, Sampling& s) { s.temperature = -1.0f; });
    refused(LAPIDARY_ERROR_USAGE, [](Request&, Sampling& s) { s.temperature = NAN; });
    refused(LAPIDARY_ERROR_USAGE, [](Request&, Sampling& s) { s.frequency = INFINITY; });
    refused(LAPIDARY_ERROR_USAGE, [](Request&, Sampling& s) { s.given |= LAPIDARY_GIVEN_TOP_K, s.top_k = -1; });
    refused(LAPIDARY_ERROR_UNSUPPORTED, [](Request&, Sampling& s) { s.given |= 1u << 20; });
    refused(LAPIDARY_ERROR_USAGE, [](Request&, Sampling& s) { s.bias_count = 1; });
    expect(refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.size = 3; }) ==
           "[request] size, expected that of the struct, got 3");
    refused(LAPIDARY_ERROR_USAGE, [](Request& r, Sampling&) { r.size = offsetof(Request, messages) + 3; });  // ends within a pointer
    expect(message_of(LAPIDARY_ERROR_USAGE, [&](lapidary_error* error) { return lapidary_begin(session, nullptr, error); }) ==
           "[request] expected one, got NULL");

    // Found when they are computed: an id that is not there, a prompt that is too long.
    for (const Ids& wrong : {Ids{2, 8192}, Ids{2, -1}, Ids(257, 5)}) {
      const Question question(wrong);
      lapidary_begin(session, &question.request, Expected());
      message_of(LAPIDARY_ERROR_USAGE, [&](lapidary_error* error) { return lapidary_prefill(session, error); });
      expect(lapidary_prefill(session, nullptr) == LAPIDARY_ERROR_USAGE) << "the answer is over";
    }
    const Question question(kCapital);
    lapidary_begin(session, &question.request, Expected());
    Ids round(8);
    std::size_t count = 0;
    expect(lapidary_next(session, round.data(), 7, &count, nullptr) == LAPIDARY_ERROR_ROOM);
    expect(lapidary_next(session, nullptr, 8, &count, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(lapidary_next(session, round.data(), 8, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(lapidary_pull(session, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
    expect(pull_all(session).text == "The capital of Norway is Oslo.");
  };

  "a model is not loaded from wrong options or folders"_test = [] {
    const auto refused = [&](lapidary_status expected, const char* folder, auto&& change) {
      lapidary_model_options options = small_options();
      change(options);
      lapidary_model* model = nullptr;
      const std::string message =
          message_of(expected, [&](lapidary_error* error) { return lapidary_load(folder, &options, &model, error); });
      expect(model == nullptr);
      return message;
    };
    using Options = lapidary_model_options;
    const char* const pebble = kPebble.c_str();
    refused(LAPIDARY_ERROR_USAGE, nullptr, [](Options&) {});
    refused(LAPIDARY_ERROR_IO, "/nowhere", [](Options&) {});
    refused(LAPIDARY_ERROR_UNSUPPORTED, pebble, [](Options& o) { o.backend = "abacus"; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.context_tokens = -1; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.context_tokens = INT32_MAX; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.sessions = -1; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.threads = 10000; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.numeric = 3; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.draft = -1; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.draft_tokens = 8; });
    refused(LAPIDARY_ERROR_USAGE, pebble, [](Options& o) { o.draft = LAPIDARY_DRAFT_NONE, o.assistant = "x"; });
    refused(LAPIDARY_ERROR_UNSUPPORTED, pebble, [](Options& o) { o.flags = 16; });
    refused(LAPIDARY_ERROR_MEMORY, pebble, [](Options& o) { o.memory_limit_bytes = 1; });
    const lapidary_model_options options = small_options();
    expect(lapidary_load(pebble, &options, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
  };

  "callers of another version are understood"_test = [] {
    struct Newer {
      lapidary_model_options known;
      std::uint64_t added;
    } newer{small_options(), 0};
    newer.known.size = sizeof newer;
    lapidary_model* model = nullptr;
    lapidary_load(kPebble.c_str(), &newer.known, &model, Expected());
    lapidary_free_model(model, Expected());
    newer.added = 1;
    expect(lapidary_load(kPebble.c_str(), &newer.known, &model, nullptr) == LAPIDARY_ERROR_UNSUPPORTED);

    // An older one ends in the middle: the rest is as if it were zero, and is neither read nor written.
    lapidary_model_options older = small_options();
    older.size = offsetof(lapidary_model_options, numeric);
    older.numeric = older.draft = older.draft_tokens = -99;
    older.flags = 99;
    const OwnedModel loaded(older);
    lapidary_model_info info = LAPIDARY_INIT(lapidary_model_info);
    info.size = offsetof(lapidary_model_info, layers);
    info.layers = -99;
    lapidary_describe(loaded, &info, Expected());
    expect(info.vocab == 8192_i && info.layers == -99_i && info.size == offsetof(lapidary_model_info, layers));

    struct {
      std::size_t size;
      std::int32_t status;
      char message[12];
      char behind;
    } small_error{offsetof(lapidary_error, message) + 12, 0, "", 'x'};
    lapidary_load("/nowhere", nullptr, &model, reinterpret_cast<lapidary_error*>(&small_error));
    expect(small_error.status == LAPIDARY_ERROR_IO && std::strlen(small_error.message) == 11u && small_error.behind == 'x');
  };
};

}  // namespace
}  // namespace lapidary::test::misuse_test
