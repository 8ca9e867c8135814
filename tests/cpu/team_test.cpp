// The thread team: every thread runs its own part, and a barrier separates what comes before from what comes after.
#include <boost/ut.hpp>

#include <atomic>
#include <vector>

#include "cpu/team.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

suite<"team"> team_suite = [] {
  "each run calls every part once, run after run"_test = [] {
    for (const int threads : {1, 2, 3, 4}) {
      cpu::Team team(threads);
      expect(eq(team.size(), threads));
      std::vector<int> calls(threads, 0);
      for (int run = 0; run < 2000; ++run)
        team.run([&](cpu::Part part) { calls[part.index] += part.count == threads ? 1 : 1000000; });
      expect(calls == std::vector<int>(threads, 2000)) << threads << "threads";
    }
  };

  "what a thread wrote before a barrier is seen by all after it"_test = [] {
    for (const int threads : {1, 2, 3, 4}) {
      cpu::Team team(threads);
      std::vector<int> written(threads, 0);  // plain memory: the barrier is all that orders it
      std::atomic<int> wrong = 0;
      team.run([&](cpu::Part part) {
        for (int step = 1; step <= 2000; ++step) {
          written[part.index] = step;
          team.sync();
          for (const int value : written) wrong += value != step;
          team.sync();
        }
      });
      expect(eq(wrong.load(), 0)) << threads << "threads";
    }
  };

  "a run returns when all parts are done"_test = [] {
    cpu::Team team(4);
    std::vector<int> values(4, 0);
    int wrong = 0;
    for (int run = 1; run <= 2000; ++run) {
      team.run([&](cpu::Part part) { values[part.index] = run; });
      for (const int value : values) wrong += value != run;
    }
    expect(eq(wrong, 0));
  };

  "a team that never ran goes home"_test = [] {
    for (int round = 0; round < 20; ++round) {
      const cpu::Team team(1 + round % 4);
      expect(eq(team.size(), 1 + round % 4));
    }
  };
};

}  // namespace
}  // namespace lapidary::test
