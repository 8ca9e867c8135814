// Collects a prompt as spans: what the template says and what it quotes are kept apart.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.hpp"

namespace lapidary::text {

class PromptWriter {
 public:
  void markup(std::string_view text) { append(text, Specials::recognise); }  // the template's own words
  void quote(std::string_view text) { append(text, Specials::as_text); }     // from a message or a tool

  std::vector<Span> take() { return std::move(spans_); }

 private:
  void append(std::string_view text, Specials specials) {
    if (text.empty()) return;
    if (spans_.empty() || spans_.back().specials != specials) spans_.push_back({"", specials});
    spans_.back().text += text;
  }

  std::vector<Span> spans_;
};

}  // namespace lapidary::text
