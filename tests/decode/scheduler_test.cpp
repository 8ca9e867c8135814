#include <boost/ut.hpp>

#include <map>
#include <string>

#include "decode/scheduler.hpp"

namespace lapidary::test::scheduler_test {
namespace {

using namespace boost::ut;
using decode::Scheduler;
using Text = Scheduler::Text;
using Wish = Scheduler::Wish;

std::string shown(const Scheduler::Unit& unit, std::span<const Text> texts) {
  if (unit.kind == Wish::nothing) return "-";
  std::string text = unit.kind == Wish::round ? "round" : "chunk";
  for (const std::size_t i : unit.whose()) text += " " + std::to_string(texts[i].id);
  return text;
}

const suite<"scheduler"> scheduler = [] {
  "nobody wishes anything"_test = [] {
    Scheduler all(8, 256);
    expect(shown(all.next({}), {}) == "-");
    const Text idle[] = {{1}};
    expect(shown(all.next(idle), idle) == "-");
  };

  "all that decode have a round together, then one prompt a chunk, in turn"_test = [] {
    Scheduler all(8, 256);
    const Text texts[] = {{3, Wish::round}, {5, Wish::chunk}, {4, Wish::chunk}, {7, Wish::round}, {9}};
    for (const char* expected : {"round 3 7", "chunk 4", "round 3 7", "chunk 5", "round 3 7", "chunk 4"})
      expect(shown(all.next(texts), texts) == expected) << expected;
    const Text prompts[] = {{4, Wish::chunk}, {5, Wish::chunk}};
    for (const char* expected : {"chunk 5", "chunk 4", "chunk 5"}) expect(shown(all.next(prompts), prompts) == expected) << expected;
  };

  "short prompts share a turn, as long as a chunk may be"_test = [] {
    Scheduler all(8, 128);
    const Text texts[] = {{1, Wish::round}, {2, Wish::chunk}, {3, Wish::chunk}, {4, Wish::chunk}, {5, Wish::chunk}};
    const auto next = [&](const char* expected, int most_rows, int rows) {
      const Scheduler::Unit unit = all.next(texts);
      expect(shown(unit, texts) == expected) << expected;
      expect(unit.chunk_rows == most_rows) << expected << unit.chunk_rows;
      if (rows > 0) all.observe_chunk(rows, 1e-6 * rows);
      else all.observe_round(1.0);
    };
    next("round 1", 0, 0);
    next("chunk 2", 128, 40);
    next("chunk 3", 88, 40);
    next("chunk 4", 48, 30);  // what is left is not worth a chunk
    next("round 1", 0, 0);
    next("chunk 5", 128, 128);
    next("round 1", 0, 0);
    next("chunk 2", 128, 1);
    const Text decoding[] = {{1, Wish::round}, {2, Wish::round}};
    expect(shown(all.next(decoding), decoding) == "round 1 2") << "no prompt is left";
  };

  "more than a round has rows for take turns"_test = [] {
    Scheduler all(2, 256);
    const Text texts[] = {{1, Wish::round}, {2, Wish::round}, {3, Wish::round}, {4, Wish::chunk}};
    for (const char* expected : {"round 1 2", "round 3", "chunk 4", "round 1 2", "round 3", "chunk 4"})
      expect(shown(all.next(texts), texts) == expected) << expected;
  };

  "nobody waits longer than the rounds of the others and a chunk"_test = [] {
    for (const int most_rows : {1, 3, 8}) {
      Scheduler all(most_rows, 256);
      std::map<std::uint64_t, int> waited;
      std::vector<Text> texts;
      for (std::uint64_t id = 1; id <= 16; ++id) texts.push_back({id, id % 4 ? Wish::round : Wish::chunk});
      const int rounds = (12 + most_rows - 1) / most_rows, prompts = 4;
      for (int units = 0; units < 500; ++units) {
        for (auto& [id, count] : waited) ++count;
        const Scheduler::Unit next = all.next(texts);
        for (const std::size_t i : next.whose()) {
          const bool decodes = texts[i].wish == Wish::round;
          expect(waited[texts[i].id] <= (decodes ? rounds + 1 : (rounds + 1) * prompts)) << texts[i].id << waited[texts[i].id];
          waited[texts[i].id] = 0;
        }
      }
      for (const auto& [id, count] : waited) expect(count <= (rounds + 1) * prompts) << id;
    }
  };

  "a chunk beside rounds takes no longer than eight of them, alone it is whole"_test = [] {
    Scheduler all(8, 256);
    const Text alone[] = {{1, Wish::chunk}}, beside[] = {{1, Wish::chunk}, {2, Wish::round}};
    all.observe_round(0.010);
    all.observe_chunk(256, 0.256);  // 1 ms a row
    expect(all.next(alone).chunk_rows == 256_i);
    expect(all.next(beside).kind == Wish::round);
    expect(all.next(beside).chunk_rows == 64_i);
    for (int i = 0; i < 100; ++i) all.observe_round(0.020);
    all.next(beside);
    expect(all.next(beside).chunk_rows == 128_i);
    for (int i = 0; i < 100; ++i) all.observe_chunk(128, 0.0128);
    all.next(beside);
    expect(all.next(beside).chunk_rows == 256_i);
    for (int i = 0; i < 100; ++i) all.observe_round(1e-6);
    all.next(beside);
    expect(all.next(beside).chunk_rows == 64_i);
  };
};

}  // namespace
}  // namespace lapidary::test::scheduler_test
