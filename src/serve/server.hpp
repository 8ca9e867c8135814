// lapidary serve: one checkpoint, several conversations, the protocols that clients have. Two threads and a helper: one with the
// sockets, one that computes, one that turns requests into prompts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/model.hpp"
#include "serve/server_options.hpp"

namespace lapidary::serve {

class Server {
 public:
  // Listens, and answers 503 until run() has loaded the model. `load` is called on another thread; `say` is told what happens, a line
  // at a time.
  Server(ServerOptions options, std::function<std::unique_ptr<engine::Model>()> load, std::function<void(const std::string&)> say);
  ~Server();

  int port() const;  // 0 = none
  // Until it has drained. Throws what loading threw.
  void run();
  // From any thread: takes nothing new, ends when all that runs has been answered, or after a while.
  void drain();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lapidary::serve
