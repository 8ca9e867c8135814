// A model in several threads: a session each, and cancelling from outside at any moment.
#include "capi/handles.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace lapidary::test::threads_test {
namespace {

using namespace boost::ut;

const suite<"threads"> threads = [] {
  "threads with a session each have the tokens of one alone"_test = [] {
    lapidary_model_options options = small_options(3);
    options.draft_tokens = 3;  // rounds of several tokens
    const OwnedModel model(options);
    std::vector<Ids> alone;
    for (const std::uint64_t seed : {1, 2, 3}) {
      const OwnedSession session(model);
      Question story(kStory);
      alone.push_back(generate(session, story.endless(seed, 40)));
    }
    expect(alone[0] != alone[1]);
    std::vector<Ids> together(3);
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < together.size(); ++i)
      workers.emplace_back([&, i] {
        lapidary_session* session = nullptr;
        lapidary_open_session(model, &session, nullptr);
        Question story(kStory);
        story.endless(i + 1, 40);
        story.request.flags = LAPIDARY_ROWS | LAPIDARY_LOGPROBS;  // they are read before another session has the model
        Ids round(8);
        std::size_t count = 0;
        lapidary_begin(session, &story.request, nullptr);
        while (lapidary_next(session, round.data(), round.size(), &count, nullptr) == LAPIDARY_OK) {
          together[i].insert(together[i].end(), round.begin(), round.begin() + static_cast<std::ptrdiff_t>(count));
          std::array<std::int32_t, 16> ids{};
          lapidary_tokenize(model, "in between", 10, 0, ids.data(), ids.size(), &count, nullptr);
        }
        lapidary_free_session(session, nullptr);
      });
    for (std::thread& worker : workers) worker.join();
    expect(std::ranges::equal(together, alone));
  };

  "an answer is cancelled at whatever moment, and the next one is whole"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    Question story(kStory), capital(kCapital);
    story.endless(1);
    int cancelled = 0;
    for (int delay = 0; delay < 12; ++delay) {
      std::atomic<bool> done = false;
      std::thread canceller([&] {
        for (int i = 0; i < delay * 20; ++i) std::this_thread::yield();
        while (!done) lapidary_cancel(session);
      });
      lapidary_begin(session, &story.request, Expected());
      const Told told = pull_all(session);
      done = true;
      canceller.join();
      cancelled += told.ending == LAPIDARY_ENDING_CANCELLED;
      lapidary_begin(session, &capital.request, Expected());
      expect(pull_all(session).text == "The capital of Norway is Oslo.");
    }
    expect(cancelled == 12_i);
  };

  "one call at a time: a second thread is refused or waits for nobody"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    Question story(kStory);
    story.endless(1);
    lapidary_begin(session, &story.request, Expected());
    std::atomic<bool> begun = false;
    std::thread worker([&] {
      begun = true;
      pull_all(session);
    });
    while (!begun) std::this_thread::yield();
    std::size_t count = 0;
    bool was_busy = false;
    while (!was_busy && lapidary_tokens(session, nullptr, 0, &count, nullptr) != LAPIDARY_OK)
      was_busy = lapidary_prefill(session, nullptr) == LAPIDARY_ERROR_BUSY;
    lapidary_cancel(session);
    worker.join();
  };
};

}  // namespace
}  // namespace lapidary::test::threads_test
