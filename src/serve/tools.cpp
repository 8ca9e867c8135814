#include <algorithm>

#include "serve/shared_fields.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr std::size_t kMaxTools = 128, kMaxNameBytes = 64;

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

Value declaration(const Tool& tool, const Value& parameters) {
  Value::Object function{{"name", tool.name}};
  if (tool.description) function.emplace_back("description", *tool.description);
  if (!parameters.is_null()) function.emplace_back("parameters", parameters);
  return Value::Object{{"type", "function"}, {"function", std::move(function)}};
}

// Of a tool whose arguments are written freely where something must hold calls: the schemas of other tools, or the answer's format.
Value any_arguments(const Tool& tool) { return tool.parameters.truthy() ? Value(Value::Object{{"type", "object"}}) : Value(); }

}  // namespace

Tool read_tool(Fields& fields, std::string_view parameters) {
  Tool tool{.name = fields.need_text("name")};
  if (!is_name(tool.name)) refuse(fields.path_of("name"), "expected 1 to 64 letters, digits, _ and -, got " + shown(tool.name));
  if (const std::string* description = fields.text("description")) tool.description = *description;
  if (const Value* schema = fields.object(parameters)) tool.parameters = *schema;
  tool.strict = fields.boolean("strict").value_or(false);
  return tool;
}

void Tools::add(Tool tool, const std::string& name_path) {
  if (tools_.size() == kMaxTools) refuse(name_path, "expected at most 128 tools, got more");
  if (std::ranges::find(tools_, tool.name, &Tool::name) != tools_.end())
    refuse(name_path, "expected a name of its own, got " + shown(tool.name) + " again");
  tools_.push_back(std::move(tool));
}

Value Tools::declared() const {
  if (tools_.empty()) return {};
  Value::Array all;
  for (const Tool& tool : tools_) all.push_back(declaration(tool, tool.parameters));
  return all;
}

void apply_tools(const Tools& tools, const ToolChoice& choice, engine::AnswerOptions& options) {
  using Calls = engine::AnswerOptions::Calls;
  using Kind = ToolChoice::Kind;
  options.single_call = !choice.parallel || choice.kind == Kind::named;
  options.calls = choice.kind == Kind::none ? Calls::none : choice.kind == Kind::automatic ? Calls::automatic : Calls::required;

  Value::Array held;
  for (const Tool& tool : tools.all()) {
    const bool is_held = tool.strict || options.calls == Calls::required;
    if (choice.kind != Kind::named || tool.name == choice.name)
      held.push_back(declaration(tool, is_held ? tool.parameters : any_arguments(tool)));
  }
  if (options.calls == Calls::required && held.empty())
    refuse(choice.path, choice.kind == Kind::named ? "expected a declared tool, got " + shown(choice.name)
                                                   : "expected tools to choose from, got none");
  const bool has_grammar = options.schema || std::ranges::any_of(tools.all(), &Tool::strict);
  if (options.calls == Calls::required || (options.calls == Calls::automatic && has_grammar && !held.empty())) options.strict_tools = std::move(held);
}

}  // namespace lapidary::serve
