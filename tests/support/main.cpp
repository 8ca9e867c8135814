// Runs the suites of all files of a test program: `test-ROOM [NAME or 'PATTERN*']`. Running no test is a failure.
#include "support/reporter.hpp"

int main(int argc, const char** argv) {
  auto& runner = boost::ut::cfg<boost::ut::override>;
  if (argc > 1) runner.run_only(argv[1]);
  static_cast<void>(runner.run({.report_errors = true}));
  return runner.succeeded() ? 0 : 1;
}
