// Byte-pair encoding of text without added tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer_tables.hpp"

namespace lapidary::text {

// Appends ids to `ids`. Keeps its working memory from one stretch of text to the next.
class BpeEncoder {
 public:
  BpeEncoder(const TokenTables& tables, std::vector<std::int32_t>& ids) : tables_(tables), ids_(ids) {}

  void encode(std::string_view text);

 private:
  // A piece of the word; it and its neighbours are known by their places.
  struct Symbol {
    std::int32_t id;
    std::uint32_t before, after;
    std::uint32_t rank;   // of its merge with the symbol after it; kNone when there is none, or it is gone itself
    std::int32_t result;  // of that merge
  };

  void add(std::int32_t id);
  void rank_pair(std::uint32_t place);
  void finish_word();

  const TokenTables& tables_;
  std::vector<std::int32_t>& ids_;
  std::vector<Symbol> word_;
  std::vector<std::uint64_t> queue_;  // heap of rank << 32 | place
};

}  // namespace lapidary::text
