// Which tokens may come next, through thoughts, text and calls.
#include <boost/ut.hpp>

#include "decode/constraint.hpp"
#include "support/cases.hpp"

namespace lapidary::test::constraint_test {
namespace {

using namespace boost::ut;
using decode::Calls;
using decode::Constraint;
using decode::Rules;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer pebble = text::Tokenizer::open(kRoot + "/models/pebble");
  return pebble;
}

std::int32_t special(const char* name) { return *tokenizer().special(name); }

const std::int32_t kStop = special("<turn|>"), kOpenThought = special("<|channel>"), kCloseThought = special("<channel|>"),
                   kOpenCall = special("<|tool_call>"), kCloseCall = special("<tool_call|>"), kWord = tokenizer().encode("hello")[0],
                   kLine = tokenizer().encode("\n")[0];

Rules rules() {
  return {.thought = {kOpenThought, kCloseThought}, .call = {kOpenCall, kCloseCall},
          .thought_header = tokenizer().encode("thought\n"), .thought_closing = tokenizer().encode("\n<channel|>")};
}

std::shared_ptr<const text::Grammar> calls() {
  static const auto grammar = text::Grammar::calls(tokenizer(), text::parse_json(R"([{"type":"function","function":{"name":"stop"}}])", "tools"));
  return grammar;
}

std::shared_ptr<const text::Grammar> json() {
  static const auto grammar = text::Grammar::schema(tokenizer(), text::parse_json(R"({"enum":[[1]]})", "schema"));
  return grammar;
}

bool allows(const Constraint& constraint, std::int32_t id) {
  std::vector<std::uint32_t> mask(text::mask_words(tokenizer().size()));
  constraint.fill_mask(mask, {&kStop, 1});
  return (mask[static_cast<std::size_t>(id / 32)] >> (id % 32) & 1) != 0;
}

int allowed(const Constraint& constraint) {
  int count = 0;
  for (std::int32_t id = 0; id < tokenizer().size(); ++id) count += allows(constraint, id);
  return count;
}

void take(Constraint& constraint, std::string_view text) {
  for (const std::int32_t id : tokenizer().encode(text)) {
    expect(allows(constraint, id)) << tokenizer().bytes(id) << "of" << text;
    expect(constraint.accept(id));
  }
}

const suite<"constraints"> constraints = [] {
  "without calls the opener is what is missing, in text and in thoughts"_test = [] {
    Rules none = rules();
    none.calls = Calls::none;
    Constraint constraint(none);
    expect(allowed(constraint) == tokenizer().size() - 1 && !allows(constraint, kOpenCall) && !constraint.accept(kOpenCall));
    take(constraint, "well <|channel>thought\nhm");
    expect(!allows(constraint, kOpenCall) && allows(constraint, kStop) && !constraint.accept(kOpenCall) && constraint.complete());
  };

  "a required call can have a thought before it where thinking is on, and calls or the end behind it"_test = [] {
    for (const bool think : {false, true}) {
      Rules required = rules();
      required.calls = Calls::required;
      required.call_grammar = calls();
      required.may_think = think;
      Constraint constraint(required);
      expect(allowed(constraint) == (think ? 2 : 1) && allows(constraint, kOpenCall) && allows(constraint, kOpenThought) == think);
      expect(!constraint.accept(kWord) && constraint.accept(kOpenThought) == think && !constraint.complete());
      if (think) {
        expect(!allows(constraint, kStop) && !allows(constraint, kOpenCall) && allows(constraint, kWord));
        take(constraint, "thought\nhm<channel|>");
        expect(allowed(constraint) == 1_i && !constraint.accept(kOpenThought)) << "one thought is all";
      }
      for (int i = 0; i < 2; ++i) {
        take(constraint, "<|tool_call>call:stop{}");
        expect(allowed(constraint) == 1_i && !constraint.complete());
        take(constraint, "<tool_call|>");
        expect(allowed(constraint) == 2_i && allows(constraint, kStop) && allows(constraint, kOpenCall) && constraint.complete());
        expect(!constraint.accept(kWord) && !constraint.accept(kStop));
      }
    }
  };

  "one call and no more"_test = [] {
    for (const bool strict : {false, true}) {
      Rules single = rules();
      single.single_call = true;
      if (strict) single.call_grammar = calls();
      Constraint constraint(single);
      take(constraint, "I say <|tool_call>call:stop{}");
      expect(!constraint.ended());
      take(constraint, "<tool_call|>");
      expect(constraint.ended() && constraint.complete() && !constraint.accept(kWord) && !constraint.accept(kOpenCall));
    }
  };

  "a call or the answer, where both have grammars"_test = [] {
    Rules both = rules();
    both.answer_grammar = json();
    both.call_grammar = calls();
    Constraint called(both), said(both);
    take(called, "<|tool_call>call:stop{}<tool_call|>");
    expect(allowed(called) == 2_i && !allows(called, tokenizer().encode("[")[0])) << "the answer was the call";
    take(said, "[1]");
    expect(allows(said, kStop) && !allows(said, kOpenCall) && said.complete());
    both.call_grammar = nullptr;
    expect(!allows(Constraint(both), kOpenCall)) << "no tools, no calls";
  };

  "a thought is closed after its budget, its header not counted"_test = [] {
    for (const int budget : {0, 1, 3}) {
      for (const bool is_free : {false, true}) {
        Rules thinking = rules();
        thinking.thought_ids = budget;
        thinking.may_think = true;
        if (!is_free) thinking.answer_grammar = json();
        Constraint constraint(thinking);
        take(constraint, "<|channel>thought\n");
        for (int i = 0; i < budget; ++i) {
          expect(allows(constraint, kWord) && allows(constraint, kCloseThought) && allows(constraint, kOpenThought));
          expect(constraint.accept(i % 2 ? kOpenThought : kWord)) << "another opener begins no other budget";
        }
        expect(allowed(constraint) == 1_i && allows(constraint, kLine) && !constraint.accept(kCloseThought) && constraint.accept(kLine));
        expect(allowed(constraint) == 1_i && allows(constraint, kCloseThought) && constraint.accept(kCloseThought));
        if (is_free) expect(allowed(constraint) == tokenizer().size());
        else take(constraint, "[1]");
      }
    }
  };

  "a thought that ends in time, one without a header, one that the prompt has opened"_test = [] {
    Rules thinking = rules();
    thinking.thought_ids = 2;
    Constraint in_time(thinking);
    take(in_time, "<|channel>thought\n");
    expect(in_time.accept(kWord) && in_time.accept(kCloseThought) && allowed(in_time) == tokenizer().size());
    Constraint headless(thinking);
    take(headless, "<|channel>");
    expect(headless.accept(kWord) && allowed(headless) > 1_i && headless.accept(kWord) && allowed(headless) == 1_i);
    thinking.in_thought = true;
    Constraint opened(thinking);
    expect(opened.accept(kWord) && allowed(opened) > 1_i && opened.accept(kWord) && allowed(opened) == 1_i);
    thinking.thought_ids = 0;
    expect(allowed(Constraint(thinking)) == 1_i);
    thinking.thought_ids.reset();
    thinking.answer_grammar = json();
    expect(allows(Constraint(thinking), kWord)) << "the grammar waits for the end of the thought";
  };
};

}  // namespace
}  // namespace lapidary::test::constraint_test
