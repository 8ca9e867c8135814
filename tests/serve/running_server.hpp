// A whole server of pebble on a thread of its own, asked over a Unix socket.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/pebble.hpp"
#include "serve/raw_http.hpp"
#include "serve/server.hpp"

namespace lapidary::test {

inline constexpr int kLongContext = 4096;

inline engine::ModelOptions pebble_with(int sessions, int context_tokens = kLongContext) {
  engine::ModelOptions options = pebble_options(sessions);
  options.link.context_tokens = context_tokens;
  options.link.threads = 1;  // the server and its clients have some themselves
  return options;
}

class RunningServer {
 public:
  using Load = std::function<std::unique_ptr<engine::Model>()>;

  explicit RunningServer(const engine::ModelOptions& model, serve::ServerOptions options = {})
      : RunningServer([model] { return std::make_unique<engine::Model>(model); }, std::move(options)) {
    if (!says("listening on ")) throw std::runtime_error("it does not get ready");
  }
  // Does not wait for the model.
  RunningServer(Load load, serve::ServerOptions options) {
    options.unix_path = socket();
    server_ = std::make_unique<serve::Server>(options, std::move(load), [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
    });
    thread_ = std::thread([this] {
      try {
        server_->run();
      } catch (const Error& error) {
        failure_ = error;
      }
      ended_ = true;
    });
  }
  ~RunningServer() {
    server_->drain();
    thread_.join();
  }

  void drain() { server_->drain(); }
  bool ends() { return eventually([this] { return ended_.load(); }); }
  const std::optional<Error>& failure() const { return failure_; }  // once it has ended

  std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  bool says(const std::string& text) {
    return eventually([&] { return log().find(text) != std::string::npos; });
  }

  serve::RawClient client() const { return serve::RawClient(socket()); }
  // A request on its own connection that has been sent.
  serve::RawClient sent(const std::string& request) const {
    serve::RawClient made = client();
    made.send(request);
    return made;
  }
  serve::Reply get(const std::string& path, const std::string& fields = {}) const { return sent(serve::get(path, fields)).reply(); }
  serve::Reply post(const std::string& path, const std::string& body, const std::string& fields = {}) const {
    return sent(serve::post(path, body, fields)).reply();
  }

  // The states of the slots: "decode idle".
  std::string slots(const std::string& fields = {}) const {
    std::string states;
    const text::Value all = text::parse_json(get("/slots", fields).body, "slots");
    for (const text::Value& slot : *all.array())
      states += (states.empty() ? "" : " ") + *slot.find("state")->string();
    return states;
  }
  bool has_slots(const std::string& states) const {
    return eventually([&] { return slots() == states; });
  }
  double metric(const std::string& name) const {
    const std::string text = "\n" + get("/metrics").body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }
  bool has_metric(const std::string& name, double value) const {
    return eventually([&] { return metric(name) == value; });
  }

 private:
  static bool eventually(const std::function<bool()>& holds) {
    for (int ms = 0; ms < serve::kPatienceMs; ms += 2) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  std::string socket() const { return folder_.path("socket"); }

  const TemporaryFolder folder_;
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<serve::Server> server_;
  std::optional<Error> failure_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

// A body for /v1/chat/completions; `more`: further fields.
inline std::string question(const std::string& text, const std::string& more = {}) {
  return R"({"messages":[{"role":"user","content":")" + text + "\"}]" + (more.empty() ? "" : ",") + more + "}";
}
// It ends with the context alone.
inline std::string endless(const std::string& more = {}) {
  return question("Tell me a story.", R"("temperature":1,"seed":1,"logit_bias":{"1":-100,"6":-100})" + (more.empty() ? "" : "," + more));
}

}  // namespace lapidary::test
