// Fields that several APIs have, and what they mean. Names and shapes that differ are the caller's; rules are here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api.hpp"
#include "serve/fields.hpp"
#include "serve/media_fields.hpp"

namespace lapidary::serve {

inline constexpr std::size_t kMaxMessages = 4096;  // of one request

// `model`: absent, or a name that the model has; 404 otherwise.
void read_model_name(Fields& fields, const Facts& facts);
// temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty, seed, logit_bias.
engine::SamplingOptions read_sampling(Fields& fields, const Facts& facts);
// A text, or a list of up to 16, each of 1 to 256 bytes.
std::vector<std::string> read_stops(Fields& fields, std::string_view name);
// At least 1. More than any context holds is no error.
std::optional<std::int32_t> read_max_tokens(Fields& fields, std::string_view name);
// Token ids, all in the vocabulary.
std::vector<std::int32_t> read_ids(const text::Value::Array& given, const std::string& path, std::int32_t vocab);
std::string read_cache_salt(Fields& fields);
std::optional<int> read_thinking_budget(Fields& fields);  // thinking_budget_tokens

// Parts that are neither text nor anything that is taken in their place.
bool is_media(std::string_view type);
[[noreturn]] void refuse_media(const std::string& part_path, std::string_view type);
// A chat completion's content as text::render() takes it: a text, or parts. Pictures and sounds go to `media`; null: they are refused.
text::Value read_content(const text::Value& content, const std::string& path, MediaItems* media = nullptr);
std::string joined_text(const text::Value& content, std::string_view between = "");  // of what read_content() returns

// Functions that a client runs.
struct Tool {
  std::string name;
  std::optional<std::string> description{};
  text::Value parameters{};  // null = it takes no arguments
  bool strict = false;       // calls must fit the parameters
};
// Of an object with `name`, `description`, `strict` and, by the name that the API has for it, the schema of its parameters.
Tool read_tool(Fields& fields, std::string_view parameters = "parameters");

class Tools {
 public:
  void add(Tool tool, const std::string& name_path);  // at most 128, with names of their own
  bool empty() const { return tools_.empty(); }
  const std::vector<Tool>& all() const { return tools_; }
  text::Value declared() const;  // as text::render() takes them; null = none

 private:
  std::vector<Tool> tools_;
};

struct ToolChoice {
  enum class Kind : std::uint8_t { automatic, none, required, named };
  Kind kind = Kind::automatic;
  std::string name{};    // of the one
  bool parallel = true;  // false: one call ends the answer
  std::string path{};    // of the field that said it
};
// Sets what the answer's calls are held to, behind apply_format(): where text must have a format, calls must fit a grammar too. A choice
// that cannot be met is refused.
void apply_tools(const Tools& tools, const ToolChoice& choice, engine::AnswerOptions& options);

// Where {"type":"json_schema"} has its schema: under `json_schema`, or beside its type.
enum class SchemaPlace : std::uint8_t { nested, beside };
// A format of the answer: `text`, `json_object` or `json_schema`. `format`: null = text.
void apply_format(const text::Value* format, const std::string& path, SchemaPlace place, Job& job);

}  // namespace lapidary::serve
