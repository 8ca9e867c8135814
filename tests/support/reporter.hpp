// How the tests report: what failed, as it fails, what took long, and one last line `N passed, N failed` that counts
// tests. A test that checks nothing has failed. Every test file is compiled with this header in front (see
// tests/meson.build), because ut's runner is one object for the whole program.
#pragma once

#include <boost/ut.hpp>
#include <chrono>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>

#include "checkpoint/error.hpp"

namespace lapidary::test {

class Reporter {
 public:
  void on(boost::ut::events::run_begin) {}

  void on(boost::ut::events::test_begin test) {
    test_ = test.name;
    subtest_.clear();
    checks_ = complaints_ = 0;
    begin_ = std::chrono::steady_clock::now();
  }
  void on(boost::ut::events::test_run subtest) { subtest_ = subtest.name; }
  void on(boost::ut::events::test_finish) { subtest_.clear(); }
  void on(boost::ut::events::test_skip) {}

  void on(boost::ut::events::test_end) {
    if (checks_ == 0) complain("checks nothing");
    ++(complaints_ == 0 ? passed_ : failed_);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
    if (taken.count() > kLong_s) std::cout << static_cast<int>(taken.count()) << " s: " << test_ << std::endl;
    test_.clear();
  }

  template <class Expression>
  void on(boost::ut::events::assertion_pass<Expression>) {
    ++checks_;
  }

  template <class Expression>
  void on(boost::ut::events::assertion_fail<Expression> assertion) {
    ++checks_;
    boost::ut::printer text{boost::ut::colors{.none = "", .pass = "", .fail = ""}};
    text << std::boolalpha << assertion.expr;
    complain(std::string(assertion.location.file_name()) + ":" + std::to_string(assertion.location.line()) + ": " + text.str());
  }

  // Called while the exception is being handled.
  void on(boost::ut::events::exception exception) {
    ++checks_;
    try {
      throw;
    } catch (const Error& error) {
      complain("unexpected error: " + error.message());
    } catch (...) {
      complain(std::string("unexpected exception: ") + exception.what());
    }
  }

  void on(const boost::ut::events::fatal_assertion&) {}

  // What a test adds with `expect(...) << message`, right after its assertion.
  template <class Message>
  void on(boost::ut::events::log<Message> log) {
    std::cerr << log.msg;
  }

  void on(boost::ut::events::summary) {
    if (!test_.empty()) {
      complain("ended the program");
      ++failed_;
    }
    std::cout << passed_ << " passed, " << failed_ << " failed" << std::endl;
  }

  bool succeeded() const { return passed_ > 0 && failed_ == 0; }

 private:
  static constexpr double kLong_s = 1.0;

  void complain(std::string_view what) {
    ++complaints_;
    std::cerr << "\nFAILED " << (test_.empty() ? "outside of a test" : test_);
    if (!subtest_.empty()) std::cerr << ", " << subtest_;
    std::cerr << "\n  " << what << std::endl;
    if (test_.empty()) ++failed_;
  }

  std::string test_, subtest_;
  std::size_t checks_ = 0, complaints_ = 0;  // of the running test
  std::chrono::steady_clock::time_point begin_;
  std::size_t passed_ = 0, failed_ = 0;      // tests
};

struct Runner : boost::ut::runner<Reporter> {
  void run_only(std::string_view pattern) { filter_ = pattern; }
  bool succeeded() const { return reporter_.succeeded(); }
};

}  // namespace lapidary::test

template <>
inline auto boost::ut::cfg<boost::ut::override> = lapidary::test::Runner{};
