#include "text/grammar_json.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "text/chat_format.hpp"
#include "text/whitespace.hpp"

namespace lapidary::text {
namespace {

constexpr int kMaxIndent = 32;  // spaces after a line break
constexpr int kMaxTabs = 16;
constexpr int kMaxFraction = 20;
constexpr int kMaxExponent = 2;  // digits: 1e99 times 18 digits is still a double

std::int64_t power_of_ten(int exponent) {
  std::int64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

int digit_count(std::int64_t natural) { return static_cast<int>(std::to_string(natural).size()); }

}  // namespace

JsonRules::JsonRules(AutomatonBuilder& out, Notation notation)
    : out_(out), notation_(notation), quote_(notation == Notation::json ? '"' : kQuoteByte), end_(out.state()),
      white_space_(out.state()), character_(out.state()) {
  out_.end_rule(end_);

  out_.byte(white_space_, ' ', end_);
  const StateId line = out_.state();
  out_.byte(white_space_, '\n', line);
  out_.end_rule(line);
  const auto indent = [&](char c, int most) {
    StateId from = line;
    for (int i = 0; i < most; ++i) {
      const StateId next = out_.state();
      out_.byte(from, c, next);
      out_.end_rule(next);
      from = next;
    }
  };
  indent(' ', kMaxIndent);
  indent('\t', kMaxTabs);

  character(character_, end_, Escapes::yes);
  out_.inside_string(character_, 0);  // the state that calls it knows how many may come
}

StateId JsonRules::any() {
  if (any_) return *any_;
  any_ = out_.state();
  const auto alternative = [&] {
    const StateId at = out_.state();
    out_.empty(*any_, at);
    return at;
  };
  object(alternative(), {{}, any_});
  array(alternative(), {{}, any_});
  string(alternative(), 0, std::nullopt);
  number(alternative());
  texts(alternative(), std::array<std::string, 3>{"true", "false", "null"});
  return *any_;
}

void JsonRules::white_space(StateId from, StateId to) {
  out_.empty(from, to);
  if (notation_ == Notation::json) out_.call(from, white_space_, to, 0);
}

void JsonRules::digits(StateId from, int least, int most, StateId to) {
  for (int count = 0;; ++count) {
    if (count >= least) out_.empty(from, to);
    if (count == most) return;
    const StateId next = out_.state();
    out_.byte(from, '0', '9', next);
    from = next;
  }
}

void JsonRules::number(StateId at) {
  const StateId whole = out_.state(), after_whole = out_.state(), more = out_.state(), after_fraction = out_.state();
  out_.empty(at, whole);
  out_.byte(at, '-', whole);
  out_.byte(whole, '0', after_whole);
  out_.byte(whole, '1', '9', more);
  digits(more, 0, kMaxDigits - 1, after_whole);

  const StateId fraction = out_.state();
  out_.byte(after_whole, '.', fraction);
  digits(fraction, 1, kMaxFraction, after_fraction);
  out_.empty(after_whole, after_fraction);

  const StateId sign = out_.state(), exponent = out_.state();
  for (const char e : {'e', 'E'}) out_.byte(after_fraction, e, sign);
  for (const char s : {'+', '-'}) out_.byte(sign, s, exponent);
  out_.empty(sign, exponent);
  digits(exponent, 1, kMaxExponent, end_);
  out_.empty(after_fraction, end_);
}

void JsonRules::integer(StateId at, std::int64_t least, std::int64_t most) {
  if (most >= 0) natural(at, std::max<std::int64_t>(least, 0), most);
  if (least < 0) {
    const StateId minus = out_.state();
    out_.byte(at, '-', minus);
    natural(minus, std::max<std::int64_t>(-most, 1), -least);
  }
}

// By the rest that the digits so far leave, and how many they are.
void JsonRules::multiple(StateId at, std::int64_t of) {
  out_.byte(at, '0', end_);
  const StateId minus = out_.state();
  out_.byte(at, '-', minus);
  std::vector<StateId> now, next(static_cast<std::size_t>(of));
  for (int length = 1; length <= kMaxDigits; ++length) {
    for (StateId& state : next) state = out_.state();
    for (char digit = '0'; digit <= '9'; ++digit) {
      if (length == 1 && digit > '0')
        for (const StateId from : {at, minus}) out_.byte(from, digit, next[static_cast<std::size_t>((digit - '0') % of)]);
      for (std::size_t rest = 0; rest < now.size(); ++rest)
        out_.byte(now[rest], digit, next[(rest * 10 + static_cast<std::size_t>(digit - '0')) % static_cast<std::size_t>(of)]);
    }
    out_.empty(next[0], end_);
    now = next;
  }
}

// Numbers of each length apart; the lengths of which all numbers are allowed share one chain of digits.
void JsonRules::natural(StateId from, std::int64_t least, std::int64_t most) {
  if (least == 0) {
    out_.byte(from, '0', end_);
    least = 1;
  }
  int shortest = 0, longest = 0;  // of the free lengths
  for (int length = digit_count(least); least <= most && length <= digit_count(most); ++length) {
    const std::int64_t first = std::max(least, power_of_ten(length - 1)), last = std::min(most, power_of_ten(length) - 1);
    if (first == power_of_ten(length - 1) && last == power_of_ten(length) - 1) {
      if (shortest == 0) shortest = length;
      longest = length;
    } else {
      same_length(from, std::to_string(first), std::to_string(last));
    }
  }
  if (longest > 0) {
    const StateId more = out_.state();
    out_.byte(from, '1', '9', more);
    digits(more, shortest - 1, longest - 1, end_);
  }
}

// Two numbers of equal length: a digit is bounded as long as all before it were those of the bound.
void JsonRules::same_length(StateId from, const std::string& least, const std::string& most) {
  using Bounded = std::pair<bool, bool>;  // from below, from above
  std::map<Bounded, StateId> states{{{true, true}, from}};
  for (std::size_t i = 0; i < least.size(); ++i) {
    std::map<Bounded, StateId> next;
    for (const auto& [bounded, state] : states) {
      for (char d = bounded.first ? least[i] : '0'; d <= (bounded.second ? most[i] : '9'); ++d) {
        const Bounded still{bounded.first && d == least[i], bounded.second && d == most[i]};
        if (!next.contains(still)) next[still] = i + 1 == least.size() ? end_ : out_.state();
        out_.byte(state, d, next[still]);
      }
    }
    states = std::move(next);
  }
}

bool JsonRules::can_write_key(std::string_view key) const {
  if (notation_ == Notation::json) return true;
  const bool has_control = std::ranges::any_of(key, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  return !key.empty() && !has_control && strip(key) == key && key.find_first_of(":,{}[]\"") == key.npos;
}

bool JsonRules::can_write(const Value& value) const {
  if (const Value::Array* items = value.array()) {
    return std::ranges::all_of(*items, [&](const Value& item) { return can_write(item); });
  }
  if (const Value::Object* fields = value.object()) {
    return std::ranges::all_of(*fields, [&](const auto& f) { return can_write_key(f.first) && can_write(f.second); });
  }
  return true;
}

std::string JsonRules::written(const Value& value) const {
  if (notation_ == Notation::json) return to_json(value);
  PromptWriter out;
  write_value(out, value, Keys::bare, Revision::canonical);
  std::string text;
  for (Span& span : out.take()) {
    if (span.specials == Specials::recognise) {
      for (std::size_t at = 0; (at = span.text.find(kQuote, at)) != span.text.npos; ++at) {
        span.text.replace(at, kQuote.size(), 1, kQuoteByte);
      }
    }
    text += span.text;
  }
  return text;
}

void JsonRules::texts(StateId at, std::span<const std::string> alternatives) {
  Words words{{alternatives.begin(), alternatives.end()}, std::vector<StateId>(alternatives.size(), end_)};
  prepare(words);
  one_of(at, words, words.ascending);
}

void JsonRules::prepare(Words& words) {
  for (const std::string& text : words.texts) {
    words.tails.push_back(0);
    for (std::size_t i = 1; i < text.size(); ++i) {
      const StateId state = out_.state();
      if (i == 1) words.tails.back() = state;
    }
    for (std::size_t i = 1; i < text.size(); ++i) {
      const StateId after = words.tails.back() + static_cast<StateId>(i);
      out_.byte(after - 1, text[i], i + 1 == text.size() ? words.ends[words.tails.size() - 1] : after);
    }
  }
  words.ascending.resize(words.texts.size());
  std::iota(words.ascending.begin(), words.ascending.end(), 0u);
  std::ranges::sort(words.ascending, {}, [&](std::uint32_t i) -> const std::string& { return words.texts[i]; });
}

// `choice` is ascending. Where only one word is left, its own tail takes over, so that several choices share it.
void JsonRules::one_of(StateId from, const Words& words, std::vector<std::uint32_t> choice) {
  struct Branch {
    StateId state;
    std::size_t begin, end;  // of `choice`: words that begin with the same `offset` bytes
    std::size_t offset;
  };
  std::vector<Branch> branches{{from, 0, choice.size(), 0}};
  while (!branches.empty()) {
    const Branch branch = branches.back();
    branches.pop_back();
    for (std::size_t begin = branch.begin, end; begin < branch.end; begin = end) {
      const std::string& text = words.texts[choice[begin]];
      end = begin + 1;
      if (text.size() == branch.offset) {
        out_.empty(branch.state, words.ends[choice[begin]]);
        continue;
      }
      const char c = text[branch.offset];
      while (end < branch.end && words.texts[choice[end]][branch.offset] == c) ++end;
      if (end > begin + 1) {
        const StateId next = out_.state();
        out_.byte(branch.state, c, next);
        branches.push_back({next, begin, end, branch.offset + 1});
      } else if (branch.offset + 1 == text.size()) {
        out_.byte(branch.state, c, words.ends[choice[begin]]);
      } else {
        out_.byte(branch.state, c, words.tails[choice[begin]] + static_cast<StateId>(branch.offset));
      }
    }
  }
}

}  // namespace lapidary::text
