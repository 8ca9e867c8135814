// Messages for the chat template, put together from what other APIs call items or blocks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/value.hpp"

namespace lapidary::serve {

// `path`: of the item or block, for refusals. Every call has its result before anything else goes on.
class Turns {
 public:
  void say(std::string_view role, text::Value content, const std::string& path);  // of the system or the user

  // Of the assistant. What comes one after the other is one message, as it was generated.
  void think(std::string_view text, const std::string& path);
  void answer(std::string_view text, const std::string& path);
  void call(const std::string& id, std::string_view name, text::Value arguments, const std::string& id_path);

  // Of a call in the assistant's message right before.
  void result(const std::string& id, std::string text, const std::string& id_path);

  enum class End : std::uint8_t { other, text, thought, call };
  End end() const;  // what the assistant's message at the end has; a call before a thought before a text
  text::Value take();

 private:
  struct Assistant {
    std::string reasoning;
    std::optional<std::string> content;
    text::Value::Array calls;
  };
  Assistant& assistant(const std::string& path);
  void check_answered(const std::string& path) const;
  void close();

  text::Value::Array messages_;
  std::optional<Assistant> open_;        // the last message
  std::vector<std::string> unanswered_;  // ids of calls
};

}  // namespace lapidary::serve
