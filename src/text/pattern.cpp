#include "text/pattern.hpp"

#include <algorithm>
#include <utility>

namespace lapidary::text {
namespace {

constexpr std::uint32_t kMaxRepeats = 1000;
constexpr int kMaxGroupDepth = 64;  // of groups

CharacterSet range(char low, char high) {
  CharacterSet set;
  for (int c = low; c <= high; ++c) set.ascii.set(static_cast<std::size_t>(c));
  return set;
}

CharacterSet any_of(std::string_view characters) {
  CharacterSet set;
  for (const char c : characters) set.ascii.set(static_cast<std::size_t>(c));
  return set;
}

CharacterSet operator|(CharacterSet a, const CharacterSet& b) {
  a.ascii |= b.ascii;
  a.others |= b.others;
  return a;
}

CharacterSet all_but(CharacterSet set) {
  set.ascii.flip();
  set.others = !set.others;
  return set;
}

Pattern of(const CharacterSet& set) { return {.kind = Pattern::Kind::set, .set = set}; }

Pattern repeated(Pattern part, std::uint32_t least, std::uint32_t most) {
  Pattern pattern{.kind = Pattern::Kind::repeat, .least = least, .most = most};
  pattern.parts.push_back(std::move(part));
  return pattern;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // Alternatives outside of all groups: each may begin with ^ and end with $.
  Pattern whole() {
    const Pattern anything = repeated(of(all_but({})), 0, Pattern::kNoLimit);
    Pattern either{.kind = Pattern::Kind::either};
    do {
      const bool from_start = take('^');
      Pattern pattern = sequence(0);
      const bool to_end = take('$');
      if (!from_start) pattern.parts.insert(pattern.parts.begin(), anything);
      if (!to_end) pattern.parts.push_back(anything);
      either.parts.push_back(std::move(pattern));
    } while (take('|'));
    if (at_ < text_.size()) blame(std::string("a '") + text_[at_] + "' elsewhere");
    return either;
  }

  const std::string& fault() const { return fault_; }

 private:
  Pattern either(int depth) {
    Pattern either{.kind = Pattern::Kind::either};
    do either.parts.push_back(sequence(depth));
    while (take('|'));
    return either;
  }

  Pattern sequence(int depth) {
    Pattern sequence;
    while (fault_.empty() && at_ < text_.size() && std::string_view("|)$").find(text_[at_]) == std::string_view::npos)
      sequence.parts.push_back(quantified(atom(depth)));
    return sequence;
  }

  Pattern atom(int depth) {
    const char c = text_[at_++];
    switch (c) {
      case '(': return group(depth);
      case '[': return of(bracket());
      case '.': return of(all_but(any_of("\n\r")));
      case '\\': return of(escape());
      case '^':
      case '*':
      case '+':
      case '?':
      case '{': return blame(std::string("a '") + c + "' elsewhere");
      default: break;
    }
    if (static_cast<unsigned char>(c) < 0x80) return of(range(c, c));
    Pattern pattern{.kind = Pattern::Kind::letter, .letter = std::string(1, c)};
    while (at_ < text_.size() && (text_[at_] & 0xc0) == 0x80) pattern.letter += text_[at_++];
    return pattern;
  }

  Pattern group(int depth) {
    if (depth == kMaxGroupDepth) return blame("fewer groups inside groups");
    if (text_.substr(at_).starts_with("?:")) at_ += 2;
    else if (peek() == '?') return blame("no look-around and no named groups");
    Pattern pattern = either(depth + 1);
    if (!take(')')) return blame("a ')' for every '('");
    return pattern;
  }

  CharacterSet bracket() {
    const bool is_negated = take('^');
    CharacterSet set;
    for (bool first = true; peek() != ']' || first; first = false) {
      if (at_ >= text_.size()) return blame("a ']' for every '['").set;
      const CharacterSet one = member();
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const CharacterSet last = member();
        if (one.ascii.count() != 1 || last.ascii.count() != 1 || one.others || last.others || !fault_.empty())
          return blame("a range from one character to another").set;
        const char low = single(one), high = single(last);
        if (low > high) return blame("a range that ascends").set;
        set = set | range(low, high);
      } else {
        set = set | one;
      }
      if (!fault_.empty()) return {};
    }
    ++at_;
    return is_negated ? all_but(set) : set;
  }

  CharacterSet member() {
    const char c = text_[at_++];
    if (c == '\\') return escape();
    if (static_cast<unsigned char>(c) >= 0x80) return blame("characters of ASCII between '[' and ']'").set;
    return range(c, c);
  }

  static char single(const CharacterSet& set) {
    std::size_t c = 0;
    while (!set.ascii[c]) ++c;
    return static_cast<char>(c);
  }

  CharacterSet escape() {
    if (at_ >= text_.size()) return blame("a character after '\\'").set;
    const char c = text_[at_++];
    const CharacterSet digits = range('0', '9'), space = any_of(" \t\n\r\f\v");
    const CharacterSet word = digits | range('a', 'z') | range('A', 'Z') | range('_', '_');
    switch (c) {
      case 'd': return digits;
      case 'D': return all_but(digits);
      case 'w': return word;
      case 'W': return all_but(word);
      case 's': return space;
      case 'S': return all_but(space);
      case 'n': return any_of("\n");
      case 'r': return any_of("\r");
      case 't': return any_of("\t");
      case 'f': return any_of("\f");
      case 'v': return any_of("\v");
      default: break;
    }
    const bool is_sign = static_cast<unsigned char>(c) < 0x80 && !word.ascii[static_cast<std::size_t>(c)];
    if (!is_sign) return blame(std::string("no '\\") + c + "'").set;
    return range(c, c);
  }

  Pattern quantified(Pattern pattern) {
    std::uint32_t least = 1, most = 1;
    if (take('*')) {
      least = 0, most = Pattern::kNoLimit;
    } else if (take('+')) {
      most = Pattern::kNoLimit;
    } else if (take('?')) {
      least = 0;
    } else if (take('{')) {
      least = most = number();
      if (take(',')) most = peek() == '}' ? Pattern::kNoLimit : number();
      if (!take('}') || most < least) return blame("{N}, {N,} or {N,M}");
    } else {
      return pattern;
    }
    take('?');  // which of two readings comes first does not matter
    return repeated(std::move(pattern), least, most);
  }

  std::uint32_t number() {
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9' && value <= kMaxRepeats) value = value * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
    if (at_ == begin || value > kMaxRepeats) blame("at most " + std::to_string(kMaxRepeats) + " repetitions");
    return value;
  }

  Pattern blame(const std::string& expected) {
    if (fault_.empty()) fault_ = expected;
    at_ = text_.size();
    return {};
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string fault_;
};

}  // namespace

Pattern parse_pattern(std::string_view text, std::string& fault) {
  Parser parser(text);
  Pattern pattern = parser.whole();
  fault = parser.fault();
  return pattern;
}

// Every text that matches is of the format; the 29th of February is left out.
std::string_view pattern_of_format(std::string_view format) {
#define DATE \
  "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
#define TIME "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
  constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"date", "^" DATE "$"},
      {"time", "^" TIME "$"},
      {"date-time", "^" DATE "T" TIME "$"},
      {"uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"},
      {"email", "^[A-Za-z0-9_+-]{1,20}(\\.[A-Za-z0-9_+-]{1,20}){0,2}@[a-z0-9]{1,20}(-[a-z0-9]{1,20})?(\\.[a-z0-9]{1,20}){0,2}\\.[a-z]{2,10}$"},
      {"ipv4", "^" BYTE "(\\." BYTE "){3}$"},
  };
#undef DATE
#undef TIME
#undef BYTE
  const auto found = std::ranges::find(kFormats, format, [](const auto& entry) { return entry.first; });
  return found == std::end(kFormats) ? std::string_view() : found->second;
}

}  // namespace lapidary::text
