// What text needs beside the model, as it is planned and as the allocator has it.
#include <boost/ut.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "decode/lookup.hpp"
#include "support/cases.hpp"
#include "support/slow_build.hpp"
#include "text/grammar_vocabulary.hpp"

namespace lapidary::test::memory_test {
namespace {

using namespace boost::ut;

// Bytes that are allocated and not freed; nothing where the allocator does not tell, or is a sanitizer's.
std::optional<std::size_t> held_bytes() {
#if defined(__GLIBC__)
  if (!kSlowBuild) {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  }
#endif
  return std::nullopt;
}

// Of what `make` returns.
template <class Make>
std::optional<std::size_t> held_by(Make make) {
  const auto before = held_bytes();
  const auto object = make();
  const auto after = held_bytes();
  return before ? std::optional(*after - *before) : std::nullopt;
}

// An allocator rounds, small blocks that it keeps for the next one count as held before, and short names need no memory of their own.
void expect_about(std::size_t planned, std::optional<std::size_t> held) {
  const std::size_t slack = planned / 50 + 8192;
  expect(planned > 0u);
  if (held) expect(planned <= *held + slack && *held <= planned + slack) << planned << *held;
}

const suite<"memory of text"> memory = [] {
  const std::string pebble = kRoot + "/models/pebble";

  "a tokenizer says what it keeps"_test = [=] {
    const auto make = [&] { return std::make_unique<text::Tokenizer>(text::Tokenizer::open(pebble)); };
    make();  // what the readers keep for good
    expect_about(make()->memory_bytes(), held_by(make));
  };

  "a vocabulary keeps no more than its tokenizer foretells, and not much less"_test = [=] {
    const auto tokenizer = text::Tokenizer::open(pebble);
    const auto make = [&] { return std::make_unique<text::Vocabulary>(tokenizer); };
    const std::size_t bytes = make()->memory_bytes(), most = text::Vocabulary::most_bytes(tokenizer);
    expect_about(bytes, held_by(make));
    expect(bytes <= most && most <= 3 * bytes) << bytes << most;
  };

  "an index of repetitions says what it will keep"_test = [] {
    for (const std::int32_t tokens : {1, 256, 4096, 100'000})
      expect_about(decode::Lookup::memory_bytes(tokens), held_by([&] { return std::make_unique<decode::Lookup>(tokens); }));
  };
};

}  // namespace
}  // namespace lapidary::test::memory_test
