// variants MODEL TEXT: reads a text once and goes on from it twice, with two seeds, in two threads.
//
//   c++ -std=c++17 variants.cpp $(pkg-config --cflags --libs lapidary) -pthread -o variants && ./variants models/pebble "Once upon a time"
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <lapidary.h>

// The message of whatever call it is passed to.
class Check {
 public:
  operator lapidary_error*() { return &error_; }
  ~Check() noexcept(false) {
    if (error_.status < 0) throw std::runtime_error(error_.message);
  }

 private:
  lapidary_error error_ = LAPIDARY_INIT(lapidary_error);
};

struct Free {
  void operator()(lapidary_model* model) const { lapidary_free_model(model, nullptr); }
  void operator()(lapidary_session* session) const { lapidary_free_session(session, nullptr); }
};
using Model = std::unique_ptr<lapidary_model, Free>;
using Session = std::unique_ptr<lapidary_session, Free>;

std::vector<int32_t> tokenize(const Model& model, const std::string& text) {
  std::vector<int32_t> ids(text.size() + 1);  // a token is at least a byte, and <bos> comes before them
  size_t count = 0;
  lapidary_tokenize(model.get(), text.data(), text.size(), LAPIDARY_TOKENIZE_BOS, ids.data(), ids.size(), &count, Check());
  ids.resize(count);
  return ids;
}

std::string go_on(lapidary_session* session, const std::vector<int32_t>& ids, uint64_t seed) {
  lapidary_sampling sampling = LAPIDARY_INIT(lapidary_sampling);
  sampling.given = LAPIDARY_GIVEN_SEED;
  sampling.seed = seed;
  lapidary_request request = LAPIDARY_INIT(lapidary_request);
  request.ids = ids.data();
  request.id_count = ids.size();
  request.sampling = &sampling;
  request.max_tokens = 24;
  lapidary_begin(session, &request, Check());
  std::string text;
  lapidary_event event = LAPIDARY_INIT(lapidary_event);
  while (lapidary_pull(session, &event, Check()) == LAPIDARY_OK)
    if (event.kind == LAPIDARY_EVENT_TEXT) text.append(event.text, event.text_bytes);
  return text;
}

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: %s MODEL TEXT\n", argv[0]), 2;
  lapidary_model_options options = LAPIDARY_INIT(lapidary_model_options);
  options.context_tokens = 1024;
  options.sessions = 2;
  lapidary_model* loaded = nullptr;
  lapidary_load(argv[1], &options, &loaded, Check());
  const Model model(loaded);
  lapidary_session* opened = nullptr;
  lapidary_open_session(model.get(), &opened, Check());
  const Session first(opened);

  const std::vector<int32_t> ids = tokenize(model, argv[2]);
  lapidary_rows(first.get(), ids.data(), ids.size(), nullptr, 0, nullptr, 0, Check());
  lapidary_fork(first.get(), ids.size(), &opened, Check());
  const Session second(opened);

  std::string texts[2];
  std::thread other([&] { texts[1] = go_on(second.get(), ids, 2); });
  texts[0] = go_on(first.get(), ids, 1);
  other.join();
  for (const std::string& text : texts) std::printf("%s%s\n", argv[2], text.c_str());
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
