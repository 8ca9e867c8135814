// Runs the lapidary program, or a script, on a terminal of its own.
#pragma once

#include <boost/ut.hpp>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <util.h>
#else
#include <pty.h>
#endif

#include <chrono>
#include <csignal>

#include "support/program.hpp"

namespace lapidary::test {

class Terminal {
 public:
  explicit Terminal(const std::string& arguments, const char* kind = "xterm")
      : Terminal(Script{"exec " + kProgram + " " + arguments}, kind) {}

  struct Script {
    std::string text;            // for the shell
    unsigned short columns = 0;  // of the terminal; 0 = it does not say
  };
  explicit Terminal(const Script& script, const char* kind = "xterm") {
    const winsize size{.ws_row = 24, .ws_col = script.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    child_ = forkpty(&master_, nullptr, nullptr, script.columns ? &size : nullptr);
    if (child_ == 0) {
      setenv("TERM", kind, 1);
      setenv("XDG_STATE_HOME", "/dev/null", 0);  // no history
      // libedit forgets the names of keys it was told; nothing else may leak.
      setenv("LSAN_OPTIONS", "print_suppressions=0:suppressions=" LAPIDARY_ROOT "/tests/support/libedit.supp", 1);
      execl("/bin/sh", "sh", "-c", script.text.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Terminal() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    close(master_);
  }

  // Keys a moment after what is on the screen, as a person would: the editor takes over the terminal just after its prompt.
  void type(std::string_view keys) const {
    usleep(200'000);
    boost::ut::expect(write(master_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }

  // Reads until the text appears in what came since the last call, or a minute has passed.
  bool shows(std::string_view text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      if (const std::size_t at = screen_.find(text); at != std::string::npos) {
        screen_.erase(0, at + text.size());
        return true;
      }
      if (!receive()) return false;
    }
    return false;
  }

  // The exit status, or -1 when the program has not ended after half a minute. It ends only when its output is read.
  int status() {
    for (int tries = 0; tries < 300; ++tries) {
      if (!receive()) usleep(100'000);
      int status = 0;
      if (waitpid(child_, &status, WNOHANG) == child_) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    return -1;
  }
  const std::string& screen() const { return screen_; }

 private:
  // Waits a moment for output; false when there can be no more.
  bool receive() {
    pollfd waiting{master_, POLLIN, 0};
    char bytes[4096];
    if (poll(&waiting, 1, 100) <= 0) return true;
    const ssize_t count = read(master_, bytes, sizeof bytes);
    if (count > 0) screen_.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  }

  int master_ = -1;
  pid_t child_ = 0;
  std::string screen_;
};

}  // namespace lapidary::test
