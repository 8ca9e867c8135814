// One answer as the engine would tell it, for every API to put into its words: a thought, a text, two calls.
#pragma once

#include <string>

#include "serve/api.hpp"

namespace lapidary::serve {

// Ids count up from "id1".
inline Facts fixed_facts() {
  return {.names = {"pebble", "stone"}, .fingerprint = "fp_1", .vocab = 100, .thinks = false,
          .random_id = [count = 0]() mutable { return "id" + std::to_string(++count); },
          .now_s = [] { return std::int64_t{1700000000}; }};
}

inline const Usage kFixedPrompt{.prompt_tokens = 12, .cached_tokens = 8};

inline const Outcome kFixedOutcome{.usage = {.prompt_tokens = 12, .cached_tokens = 8, .completion_tokens = 20, .reasoning_tokens = 6},
                                   .seed = 42};

// All that the writer returns for `deltas`.
inline std::string told(AnswerWriter& writer, const std::vector<Delta>& deltas, const ChoiceEnd& end) {
  std::string all = writer.begin(kFixedPrompt);
  for (const Delta& delta : deltas) all += writer.add(delta);
  all += writer.end(end);
  return all + writer.finish(kFixedOutcome);
}

inline std::string told(AnswerWriter& writer) {
  using text::Value;
  return told(writer,
              {{.reasoning = "Hm, \"Bern\""},
               {.reasoning = " it is."},
               {},
               {.content = "I look"},
               {.content = " it\nup.",
                .calls = {{"weather", Value::Object{{"city", "Bern"}, {"days", 2}}}, {"clock", Value::Object{}}}}},
              {.finish = Finish::tool_calls});
}

}  // namespace lapidary::serve
