#include "cli/process.hpp"

#include <fcntl.h>
#include <langinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "checkpoint/mapped_file.hpp"
#include "cli/commands.hpp"

namespace lapidary::cli {
namespace {

// A file opened later would get the number of a stream that is closed, and be taken for it. Writing to these still fails.
void take_standard_descriptors() {
  while (true) {
    const int descriptor = open("/dev/null", O_RDONLY);
    if (descriptor <= STDERR_FILENO && descriptor >= 0) continue;
    if (descriptor >= 0) close(descriptor);
    return;
  }
}

// Only letters: numbers are written and read as in the C locale. Where nothing says what a terminal is, it is taken for UTF-8.
void set_letters() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

void write_error(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // nobody is left to be told
}

void on_bus_error(int, siginfo_t* info, void*) {
  const char* path = mapped_file_at(info->si_addr);
  if (!path) {
    std::signal(SIGBUS, SIG_DFL);  // and let it happen again
    return;
  }
  static std::atomic_flag told;  // threads that compute together meet the end of a file together
  if (told.test_and_set())
    for (;;) pause();
  write_error("[");
  write_error(path);
  write_error("] changed while in use\n");
  _exit(kFailure);
}

}  // namespace

void set_up_process() {
  take_standard_descriptors();
  set_letters();
  std::cout.exceptions(std::ios::badbit | std::ios::failbit);
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw output_error();
}

Error output_error() { return {ErrorKind::io, "standard output", std::string("cannot be written: ") + std::strerror(errno)}; }

}  // namespace lapidary::cli
