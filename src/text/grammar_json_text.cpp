// Characters: strings with limits, and keys that must differ from given ones.
#include <algorithm>
#include <utility>

#include "text/grammar_json.hpp"

namespace lapidary::text {
namespace {

enum Utf8Place : std::uint8_t { kBetween, kOneMore, kTwoMore, kThreeMore, kAfterE0, kAfterED, kAfterF0, kAfterF4 };

struct Utf8Range {
  Utf8Place from;
  std::uint8_t low, high;
  Utf8Place to;
};

// What strings and keys may hold unescaped: UTF-8 without overlong forms and surrogates. Ranges from a place are ascending.
// JSON: no quote, backslash or control character.
constexpr Utf8Range kJsonText[] = {
    {kBetween, 0x20, 0x21, kBetween},     {kBetween, 0x23, 0x5b, kBetween},   {kBetween, 0x5d, 0x7f, kBetween},
    {kBetween, 0xc2, 0xdf, kOneMore},     {kBetween, 0xe0, 0xe0, kAfterE0},   {kBetween, 0xe1, 0xec, kTwoMore},
    {kBetween, 0xed, 0xed, kAfterED},     {kBetween, 0xee, 0xef, kTwoMore},   {kBetween, 0xf0, 0xf0, kAfterF0},
    {kBetween, 0xf1, 0xf3, kThreeMore},   {kBetween, 0xf4, 0xf4, kAfterF4},   {kOneMore, 0x80, 0xbf, kBetween},
    {kTwoMore, 0x80, 0xbf, kOneMore},     {kThreeMore, 0x80, 0xbf, kTwoMore}, {kAfterE0, 0xa0, 0xbf, kOneMore},
    {kAfterED, 0x80, 0x9f, kOneMore},     {kAfterF0, 0x90, 0xbf, kTwoMore},   {kAfterF4, 0x80, 0x8f, kTwoMore},
};
// A string of a call also holds these.
constexpr std::pair<std::uint8_t, std::uint8_t> kOnlyInCalls[] = {{0x00, 0x1f}, {'"', '"'}, {'\\', '\\'}};
// A further key of a call.
constexpr Utf8Range kBareKey[] = {
    {kBetween, '-', '.', kBetween}, {kBetween, '0', '9', kBetween}, {kBetween, 'A', 'Z', kBetween},
    {kBetween, '_', '_', kBetween}, {kBetween, 'a', 'z', kBetween},
};

}  // namespace

// Returns the states inside a character that leads to `to`, with `to` itself between characters.
JsonRules::CharacterStates JsonRules::character(StateId from, StateId to, Escapes escapes) {
  CharacterStates states{to};
  for (std::size_t place = kOneMore; place < states.size(); ++place) states[place] = out_.state();
  for (const Utf8Range& range : kJsonText) {
    out_.byte(range.from == kBetween ? from : states[range.from], range.low, range.high, states[range.to]);
  }
  if (notation_ == Notation::call) {
    for (const auto& [low, high] : kOnlyInCalls) out_.byte(from, low, high, to);
  } else if (escapes == Escapes::yes) {
    escape(from, to);
  }
  return states;
}

// A pair of surrogates is one character, and a lone one none.
void JsonRules::escape(StateId from, StateId to) {
  const auto hex = [&](StateId at, std::string_view digits) {
    const StateId next = out_.state();
    for (const char c : digits) out_.byte(at, c, next);
    return next;
  };
  constexpr std::string_view kAny = "0123456789abcdefABCDEF";
  const StateId backslash = out_.text(from, "\\");
  for (const char c : std::string_view("\"\\/bfnrt")) out_.byte(backslash, c, to);

  const StateId u = out_.text(backslash, "u");
  const StateId last_two = hex(hex(u, "0123456789abcefABCEF"), kAny);
  const StateId last = hex(last_two, kAny);
  for (const char c : kAny) out_.byte(last, c, to);
  const StateId d = hex(u, "dD");
  for (const char c : std::string_view("01234567")) out_.byte(d, c, last_two);

  const StateId high = hex(hex(hex(d, "89abAB"), kAny), kAny);
  const StateId low = hex(hex(hex(out_.text(high, "\\u"), "dD"), "cdefCDEF"), kAny);
  for (const char c : kAny) out_.byte(low, c, to);
}

void JsonRules::string(StateId at, std::uint64_t least, std::optional<std::uint64_t> most) {
  StateId inside = out_.state();
  out_.byte(at, quote_, inside);
  const std::uint64_t counted = most ? *most : least;
  for (std::uint64_t count = 0;; ++count) {
    if (count >= least) out_.byte(inside, quote_, end_);
    if (count == counted) break;
    out_.inside_string(inside, most ? static_cast<std::uint32_t>(std::min<std::uint64_t>(*most - count, kMaxPlainCharacters))
                                    : kMaxPlainCharacters);
    const StateId next = out_.state();
    out_.call(inside, character_, next, 0);
    inside = next;
  }
  if (!most) {
    out_.inside_string(inside, kMaxPlainCharacters);
    character(inside, inside, Escapes::yes);
  }
}

// One of these characters, each written in one way: as it is, or by the shortest escape. Control characters without one are left out.
void JsonRules::characters(StateId from, StateId to, const CharacterSet& set) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kEscapes = "\"\\bfnrt";
  const bool raw = notation_ == Notation::call;
  const auto is_plain = [&](std::size_t c) { return raw || (c >= 0x20 && c != '"' && c != '\\'); };
  for (std::size_t low = 0; low < set.ascii.size();) {
    if (!set.ascii[low] || !is_plain(low)) {
      ++low;
      continue;
    }
    std::size_t high = low;
    while (high + 1 < set.ascii.size() && set.ascii[high + 1] && is_plain(high + 1)) ++high;
    out_.byte(from, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), to);
    low = high + 1;
  }
  std::optional<StateId> backslash;
  for (std::size_t i = 0; !raw && i < kEscaped.size(); ++i) {
    if (!set.ascii[static_cast<std::size_t>(kEscaped[i])]) continue;
    if (!backslash) backslash = out_.text(from, "\\");
    out_.byte(*backslash, kEscapes[i], to);
  }
  if (!set.others) return;
  CharacterStates states{to};
  for (std::size_t place = kOneMore; place < states.size(); ++place) states[place] = out_.state();
  for (const Utf8Range& range : kJsonText)
    if (range.low >= 0x80) out_.byte(range.from == kBetween ? from : states[range.from], range.low, range.high, states[range.to]);
}

bool JsonRules::match(StateId from, StateId to, const Pattern& pattern, std::size_t& states) {
  if (++states > kMaxPatternStates) return false;
  switch (pattern.kind) {
    case Pattern::Kind::set: characters(from, to, pattern.set); return true;
    case Pattern::Kind::letter: out_.empty(out_.text(from, pattern.letter), to); return true;
    case Pattern::Kind::either:
      for (const Pattern& part : pattern.parts)
        if (!match(from, to, part, states)) return false;
      return true;
    case Pattern::Kind::sequence: {
      for (const Pattern& part : pattern.parts) {
        const StateId next = out_.state();
        if (!match(from, next, part, states)) return false;
        from = next;
      }
      out_.empty(from, to);
      return true;
    }
    case Pattern::Kind::repeat: {
      const Pattern& part = pattern.parts[0];
      const std::uint32_t counted = pattern.most == Pattern::kNoLimit ? pattern.least : pattern.most;
      for (std::uint32_t count = 0; count < counted; ++count) {
        if (count >= pattern.least) out_.empty(from, to);
        const StateId next = out_.state();
        if (!match(from, next, part, states)) return false;
        from = next;
      }
      if (pattern.most == Pattern::kNoLimit) {
        const StateId again = out_.state();
        out_.empty(from, again);
        if (!match(again, again, part, states)) return false;
        from = again;
      }
      out_.empty(from, to);
      return true;
    }
  }
  return false;
}

bool JsonRules::string_like(StateId at, const Pattern& pattern) {
  const StateId inside = out_.state(), closing = out_.state();
  out_.byte(at, quote_, inside);
  out_.byte(closing, quote_, end_);
  std::size_t states = 0;
  return match(inside, closing, pattern, states);
}

// A key that is none of `except`. JSON: written without escapes where there are any, so that no two texts mean the same key.
void JsonRules::extra_key(StateId from, std::span<const std::string> except, StateId to) {
  const bool is_json = notation_ == Notation::json;
  const std::span<const Utf8Range> ranges = is_json ? std::span<const Utf8Range>(kJsonText) : kBareKey;
  const auto between_characters = [&](StateId state, bool may_end) {
    if (is_json) out_.inside_string(state, kMaxPlainCharacters);
    if (!may_end) return;
    if (is_json) {
      out_.byte(state, '"', to);
    } else {
      out_.empty(state, to);
    }
  };
  const StateId free = out_.state();
  between_characters(free, true);
  CharacterStates inside{free};
  if (is_json) {
    inside = character(free, free, except.empty() ? Escapes::yes : Escapes::no);
    if (except.empty()) return out_.byte(from, '"', free);
    from = out_.text(from, "\"");
  } else {
    for (const Utf8Range& range : ranges) out_.byte(free, range.low, range.high, free);
  }

  struct Branch {
    StateId state;
    Utf8Place place;
    std::size_t begin, end;  // of the names: those that begin with the same `offset` bytes
    std::size_t offset;
  };
  std::vector<std::string> names(except.begin(), except.end());
  std::ranges::sort(names);
  std::vector<Branch> branches{{from, kBetween, 0, names.size(), 0}};
  while (!branches.empty()) {
    auto [state, place, begin, end, offset] = branches.back();
    branches.pop_back();
    const bool is_name = begin < end && names[begin].size() == offset;
    if (is_name) ++begin;
    if (place == kBetween) between_characters(state, !is_name && (is_json || offset > 0));  // a bare key is not empty
    for (const Utf8Range& range : ranges) {
      if (range.from != place) continue;
      int next_byte = range.low;  // the first that is not dealt with
      const auto leave_names = [&](int before) {
        if (next_byte < before) {
          out_.byte(state, static_cast<std::uint8_t>(next_byte), static_cast<std::uint8_t>(before - 1), inside[range.to]);
        }
      };
      while (begin < end) {
        const auto byte = static_cast<std::uint8_t>(names[begin][offset]);
        if (byte > range.high) break;
        std::size_t group = begin;
        while (group < end && static_cast<std::uint8_t>(names[group][offset]) == byte) ++group;
        if (byte >= range.low) {
          leave_names(byte);
          next_byte = byte + 1;
          const StateId next = out_.state();
          out_.byte(state, byte, byte, next);
          branches.push_back({next, range.to, begin, group, offset + 1});
        }
        begin = group;  // a byte below the range can only be written with an escape, or not at all
      }
      leave_names(range.high + 1);
    }
  }
}

}  // namespace lapidary::text
