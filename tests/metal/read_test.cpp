// How fast the device reads: every byte is read, once.
#include <boost/ut.hpp>

#include <numeric>

#include "metal/read_limit.hpp"
#include "metal/stage.hpp"
#include "support/random.hpp"

namespace lapidary::test::read_test {
namespace {

using namespace boost::ut;

// What is added up where so many threadgroups read so many pieces of each stream.
std::uint32_t sum_of(const std::vector<std::uint32_t>& words, int groups, int pieces) {
  const auto hold = [](const void* data, std::size_t bytes) {
    auto buffer = gpu().allocate(bytes, "read");
    std::memcpy(buffer->contents(), data, bytes);
    return buffer;
  };
  metal::layout::Step step{};
  step.k = pieces;
  std::vector<std::uint32_t> sums(static_cast<std::size_t>(groups * metal::kReadSums), 0xdeadbeef);
  const auto params = hold(&step, sizeof step), in = hold(words.data(), words.size() * 4), out = hold(sums.data(), sums.size() * 4);
  run_alone({metal::read_memory({params.get()}, {in.get()}, {out.get()}, groups)}, 1);
  std::memcpy(sums.data(), out->contents(), sums.size() * 4);
  return std::accumulate(sums.begin(), sums.end(), 0u);
}

const suite<"reading memory on the device"> read_suite = [] {
  "every word is read once"_test = [] {
    Random random(1);
    for (const auto& [groups, pieces] : {std::pair{1, 1}, {1, 256}, {3, 255}, {4, 257}, {2, 1000}}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(metal::layout::kReadStreams * groups * pieces * 4));
      for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random.below(1 << 30));
      const std::uint32_t all = std::accumulate(words.begin(), words.end(), 0u);
      expect(eq(sum_of(words, groups, pieces), all)) << groups << pieces;
      for (const std::size_t at : {std::size_t{0}, words.size() / 2, words.size() - 1}) {
        auto changed = words;
        changed[at] += 12345;
        expect(eq(sum_of(changed, groups, pieces), all + 12345)) << groups << pieces << "word" << at;
      }
    }
  };

  "the limit is a number of bytes per second"_test = [] { expect(metal::measure_read_limit(gpu()) > 1e6); };
};

}  // namespace
}  // namespace lapidary::test::read_test
