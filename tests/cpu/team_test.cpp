// The thread team: what is done in a step, by whomever, is done once, and before what comes after it.
#include <boost/ut.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#endif

#include "cpu/share.hpp"
#include "cpu/team.hpp"
#include "support/cases.hpp"
#include "support/random.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::team_test {
namespace {

using namespace boost::ut;

constexpr int kThreads[] = {1, 2, 3, 4, 7, 16};

// Now and then a thread loses its core.
void dawdle(Random& random) {
  if (random.chance(64)) std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
}

// How often each of 0..total was done; -1 where a range does not begin and end at a grain.
struct Counts {
  Counts(int total, int grain) : total(total), grain(grain), times(static_cast<std::size_t>(total), 0) {}

  void add(cpu::Range range) {  // plain memory: nobody else may do these
    const bool whole = range.begin % grain == 0 && (range.end % grain == 0 || range.end == total) && range.begin < range.end;
    for (int i = range.begin; i < range.end; ++i) times[i] = whole ? times[i] + 1 : -1;
  }
  bool all_are(int expected) const { return times == std::vector<int>(times.size(), expected); }

  int total, grain;
  std::vector<int> times;
};

suite<"team"> team_suite = [] {
  "each run calls every part once, run after run"_test = [] {
    for (const int threads : {1, 2, 3, 4}) {
      cpu::Team team(threads);
      expect(eq(team.size(), threads));
      std::vector<int> calls(threads, 0);
      for (int run = 0; run < 200; ++run)
        team.run([&](cpu::Part part) { calls[part.index] += part.count == threads ? 1 : 1000000; });
      expect(calls == std::vector<int>(threads, 200)) << threads << "threads";
    }
  };

  "what a thread wrote before a barrier is seen by all after it"_test = [] {
    for (const int threads : {1, 2, 3, 4}) {
      cpu::Team team(threads);
      std::vector<int> written(threads, 0);  // plain memory: the barrier is all that orders it
      std::atomic<int> wrong = 0;
      team.run([&](cpu::Part part) {
        for (int step = 1; step <= 200; ++step) {
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
    for (int run = 1; run <= 200; ++run) {
      team.run([&](cpu::Part part) { values[part.index] = run; });
      for (const int value : values) wrong += value != run;
    }
    expect(eq(wrong, 0));
  };

  "what is shared is done once, whoever is slow"_test = [] {
    for (const int threads : kThreads) {
      cpu::Team team(threads);
      std::vector<Random> delays;  // by thread
      for (int i = 0; i < threads; ++i) delays.emplace_back(100 * threads + i);
      for (const auto& [total, grain] : {std::pair{0, 1}, {1, 1}, {5, 8}, {16, 1}, {100, 7}, {1000, 8}, {100003, 2}}) {
        Counts first(total, grain), second(total, grain);
        constexpr int kSteps = 50;
        int steps = 0;
        team.run([&] { return steps++ < kSteps ? cpu::Turn::shared : cpu::Turn::end; },
                 [&](cpu::Part part) {
                   if (total < 100000) dawdle(delays[part.index]);
                   for (Counts* counts : {&first, &second})
                     cpu::for_each_share(total, part, grain, [&](cpu::Range range) {
                       if (total < 100000) dawdle(delays[part.index]);
                       counts->add(range);
                     });
                 });
        expect(first.all_are(kSteps) && second.all_are(kSteps)) << threads << "threads" << total << "by" << grain;
      }
    }
  };

  "the others do the share of a thread that never comes"_test = [] {
    for (const int threads : kThreads)
      for (const int present : {0, threads / 2, threads - 1}) {
        cpu::Board board(threads);
        for (std::uint32_t step = 1; step < 5; ++step) {
          Counts counts(1000, 8);
          board.begin(present, step);
          cpu::for_each_share(1000, {present, threads, &board}, 8, [&](cpu::Range range) { counts.add(range); });
          expect(counts.all_are(1)) << threads << "threads" << present;
        }
      }
  };

  "a thread that comes when all is taken finds nothing, and neither does one that is a call behind"_test = [] {
    cpu::Board board(2);
    Counts counts(64, 1);
    const auto divide = [&](int thread) {
      cpu::for_each_share(64, {thread, 2, &board}, 1, [&](cpu::Range range) { counts.add(range); });
    };
    board.begin(0, 1);
    divide(0);
    divide(0);
    expect(counts.all_are(2));
    board.begin(1, 1);
    divide(1);
    divide(1);
    expect(counts.all_are(2));
    board.begin(1, 2);
    divide(1);
    expect(counts.all_are(3));
  };

  "its owner takes a share from front to back, most of it in few pieces"_test = [] {
    cpu::Board board(2);
    board.begin(0, 1);
    std::vector<cpu::Range> ranges;
    cpu::for_each_share(2048, {0, 2, &board}, 1, [&](cpu::Range range) { ranges.push_back(range); });
    int at = 0;
    std::size_t own = 0;
    for (; own < ranges.size() && ranges[own].begin == at; ++own) at = ranges[own].end;
    expect(ge(at, 1024));
    expect(le(own, 32u));
  };

  "between steps one thread is alone, and sees what all have written"_test = [] {
    for (const int threads : kThreads) {
      cpu::Team team(threads);
      std::vector<int> values(64, 0), parts(static_cast<std::size_t>(threads), 0);  // plain memory
      std::atomic<int> at_work = 0, wrong = 0;
      for (int run = 0; run < 5; ++run) {
        int steps = 0, everyone = 0;
        std::fill(values.begin(), values.end(), 0);
        std::fill(parts.begin(), parts.end(), 0);
        team.run(
            [&] {
              wrong += at_work != 0;
              for (const int value : values) wrong += value != steps - everyone;
              for (const int calls : parts) wrong += calls != everyone;
              if (steps == 60) return cpu::Turn::end;
              const bool for_all = (steps * 7 + run) % 3 == 0;
              ++steps;
              everyone += for_all;
              return for_all ? cpu::Turn::everyone : cpu::Turn::shared;
            },
            [&](cpu::Part part) {
              ++at_work;
              if (part.board || (threads == 1 && (((steps - 1) * 7 + run) % 3 != 0)))
                cpu::for_each_own(64, part, [&](int i) { ++values[i]; });
              else ++parts[part.index];
              --at_work;
            });
        expect(eq(steps, 60));
      }
      expect(eq(wrong.load(), 0)) << threads << "threads";
    }
  };

#if defined(__linux__)
  "more threads than cores get through, and may run where they could before"_test = [] {
    std::thread([] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(sched_getcpu(), &one);
      expect(eq(sched_setaffinity(0, sizeof one, &one), 0));
      cpu::Team team(4);
      std::atomic<int> units = 0, elsewhere = 0;
      for (int run = 0; run < 20; ++run) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that the others sleep, and are woken
        int steps = 0;
        team.run([&] { return steps++ < 10 ? cpu::Turn::shared : cpu::Turn::end; },
                 [&](cpu::Part part) {
                   cpu_set_t mine;
                   elsewhere += sched_getaffinity(0, sizeof mine, &mine) != 0 || !CPU_EQUAL(&mine, &one);
                   cpu::for_each_own(64, part, [&](int) { ++units; });
                 });
      }
      expect(eq(units.load(), 20 * 10 * 64));
      expect(eq(elsewhere.load(), 0));
    }).join();
  };

  "threads that are pinned stay on a core each, and the caller where it may be"_test = [] {
    cpu_set_t allowed;
    expect(eq(sched_getaffinity(0, sizeof allowed, &allowed), 0));
    cpu::Team team(2, true);
    std::array<cpu_set_t, 2> sets{};
    team.run([&](cpu::Part part) { sched_getaffinity(0, sizeof(cpu_set_t), &sets[static_cast<std::size_t>(part.index)]); });
    expect(CPU_EQUAL(&sets[0], &allowed));
    if (CPU_COUNT(&allowed) > 1) expect(eq(CPU_COUNT(&sets[1]), 1));
  };
#endif

  "a run without steps is over at once"_test = [] {
    cpu::Team team(3);
    for (int run = 0; run < 100; ++run) team.run([] { return cpu::Turn::end; }, [](cpu::Part) {});
    int calls = 0;
    team.run([&](cpu::Part part) {
      if (part.index == 1) ++calls;
    });
    expect(eq(calls, 1));
  };

  "what is thrown in a step or between steps ends the run, and the next one is as if nothing had been"_test = [] {
    struct Accident {
      int step;
    };
    for (const int threads : kThreads) {
      cpu::Team team(threads);
      for (const bool everyone : {false, true})
        for (const bool between : {false, true})
          for (int thrower = 0; thrower < (between ? 1 : threads); ++thrower) {
            int steps = 0, seen = 0;
            std::atomic<bool> thrown = false;
            const auto run = [&] {
              team.run(
                  [&] {
                    if (between && steps == 3) throw Accident{steps};
                    return ++steps < 6 ? (everyone ? cpu::Turn::everyone : cpu::Turn::shared) : cpu::Turn::end;
                  },
                  [&](cpu::Part part) {
                    if (everyone) team.sync();
                    // A shared step may be over before one of the threads has come.
                    if (!between && steps == 3 && (everyone ? part.index == thrower : !thrown.exchange(true))) throw Accident{steps};
                    if (everyone) team.sync();
                  });
            };
            try {
              run();
            } catch (const Accident& accident) {
              seen = accident.step;
            }
            expect(eq(seen, 3) && eq(steps, 3)) << threads << "threads" << everyone << between << thrower;
            std::vector<int> calls(static_cast<std::size_t>(threads), 0);
            team.run([&](cpu::Part part) {
              team.sync();
              ++calls[part.index];
              team.sync();
            });
            expect(calls == std::vector<int>(calls.size(), 1)) << "afterwards";
          }
    }
  };

  "several threads throw at once"_test = [] {
    cpu::Team team(4);
    for (int run = 0; run < 50; ++run) {
      int seen = -1;
      try {
        team.run([&](cpu::Part part) { throw part.index; });
      } catch (const int index) {
        seen = index;
      }
      expect(seen >= 0 && seen < 4);
    }
  };

#if defined(__linux__)
  // Sanitizers reserve more memory than any limit leaves.
  if (!kSlowBuild) "a thread that the system refuses is an error, and those that had begun go home"_test = [] {
    std::ifstream statistics("/proc/self/statm");
    std::size_t pages = 0;
    statistics >> pages;
    rlimit before{};
    expect(fatal(eq(getrlimit(RLIMIT_AS, &before), 0)));
    const rlimit low{.rlim_cur = pages * 4096 + (std::size_t{64} << 20), .rlim_max = before.rlim_max};
    expect(eq(setrlimit(RLIMIT_AS, &low), 0));  // stacks take 8 MB each
    const auto error = error_of([] { cpu::Team team(64); });
    setrlimit(RLIMIT_AS, &before);
    expect(fatal(error.has_value()));
    expect(error->message().starts_with("[threads] expected 64, got ")) << error->message();
    cpu::Team team(4);
    int calls = 0;
    team.run([&](cpu::Part part) {
      if (part.index == 3) ++calls;
    });
    expect(eq(calls, 1));
  };
#endif

  "a team that never ran goes home"_test = [] {
    for (int round = 0; round < 20; ++round) {
      const cpu::Team team(1 + round % 4);
      expect(eq(team.size(), 1 + round % 4));
    }
  };
};

}  // namespace
}  // namespace lapidary::test::team_test
