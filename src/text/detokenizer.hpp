// Token ids to text while they arrive: never half a character.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/origins.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::text {

class Detokenizer {
 public:
  // `tokenizer` must outlive this. `with_specials`: special tokens appear as their names instead of as nothing.
  explicit Detokenizer(const Tokenizer& tokenizer, bool with_specials = false);

  // The text that became certain with this id: whole characters, invalid parts as U+FFFD.
  std::string push(std::int32_t id);
  // What is left when no id follows.
  std::string finish();

  // The same where ids have numbers: `origins` gets those of the text.
  std::string push(std::int32_t id, int number, Origins& origins);
  std::string finish(Origins& origins);

 private:
  std::string take_pending(std::size_t bytes, std::string text, Origins& origins);

  const Tokenizer& tokenizer_;
  bool with_specials_;
  std::string pending_;        // the beginning of a character
  std::vector<int> numbers_;   // of its ids, each of one byte
};

}  // namespace lapidary::text
