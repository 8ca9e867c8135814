#include <boost/ut.hpp>

#include <algorithm>
#include <cctype>
#include <regex>

#include "checkpoint/sha256.hpp"
#include "serve/page.hpp"

namespace lapidary::test::page_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;

std::string page() { return std::string(page_html()); }

int count(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string between(const std::string& text, const std::string& open, const std::string& close) {
  const std::size_t begin = text.find(open) + open.size();
  return text.substr(begin, text.find(close, begin) - begin);
}

// Of base 64, as hexadecimal digits.
std::string hex_of(const std::string& letters) {
  std::string bits, hex;
  for (const char letter : letters) {
    if (letter == '=') continue;
    const int value = letter == '+' ? 62 : letter == '/' ? 63 : std::isdigit(letter) ? letter + 4 : std::islower(letter) ? letter - 71 : letter - 65;
    for (int bit = 5; bit >= 0; --bit) bits += (value >> bit & 1) ? '1' : '0';
  }
  for (std::size_t at = 0; at + 8 <= bits.size(); at += 8)
    for (const std::size_t half : {at, at + 4}) hex += "0123456789abcdef"[std::stoi(bits.substr(half, 4), nullptr, 2)];
  return hex;
}

suite<"the chat page"> page_tests = [] {
  "is whole"_test = [] {
    expect(page().starts_with("<!doctype html>"));
    expect(page().ends_with("</html>\n"));
    expect(page().find('\r') == std::string::npos) << "browsers hash what they make of it: a line feed";
  };

  "has a policy that lets its own script and style run"_test = [] {
    for (const std::string tag : {"script", "style"}) {
      expect(count(page(), "<" + tag) == 1_i) << tag;
      const std::string text = between(page(), "<" + tag + ">", "</" + tag + ">");
      const std::string letters = between(page_policy(), tag + "-src 'sha256-", "'");
      expect(letters.size() == 44_ul);
      expect(hex_of(letters) == lapidary::sha256_hex(std::as_bytes(std::span(text)))) << tag;
    }
    expect(page_policy().starts_with("default-src 'none'; "));
    expect(page_policy().find("unsafe") == std::string::npos);
    expect(std::ranges::count(page_fields(), std::pair<std::string, std::string>("Content-Security-Policy", page_policy())) == 1_l);
  };

  // The policy would stop most of these, silently.
  "asks for nothing outside and takes no text for markup"_test = [] {
    for (const char* word : {"http:", "https:", "//cdn", " src=", "<link", "@import", "url(", "innerHTML", "outerHTML", "insertAdjacent", "document.write",
                             "eval(", "Function(", "localStorage", "sessionStorage", "cookie", "style=\""})
      expect(count(page(), word) == 0_i) << word;
    expect(!std::regex_search(page(), std::regex(R"(<[^>]*\son[a-z]+=)"))) << "a handler in an attribute";
  };

  "has a label for every field, and words for who has no JavaScript"_test = [] {
    const std::string text = page();
    const std::regex field(R"(<(input|textarea|select) id="(\w+)\")");
    int fields = 0;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), field); at != std::sregex_iterator(); ++at, ++fields) {
      const std::string before = text.substr(0, static_cast<std::size_t>(at->position()));
      const bool inside = count(before, "<label") > count(before, "</label>");
      expect(inside || count(text, "for=\"" + at->str(2) + "\"") == 1) << at->str(2);
    }
    expect(fields >= 8_i);
    expect(count(text, "<noscript>") == 1_i);
  };
};

}  // namespace
}  // namespace lapidary::test::page_test
