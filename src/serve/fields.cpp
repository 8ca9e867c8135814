#include "serve/fields.hpp"

#include <algorithm>
#include <cmath>

#include "text/utf8.hpp"

namespace lapidary::serve {
namespace {

using text::Value;

constexpr int kShownCharacters = 40;

std::string listed(std::initializer_list<std::string_view> choices) {
  std::string all;
  for (const std::string_view* choice = choices.begin(); choice != choices.end(); ++choice) {
    if (choice != choices.begin()) all += choice + 1 == choices.end() ? " or " : ", ";
    all += text::to_json(*choice);
  }
  return all;
}

// 2, not 2.0; 0.01.
std::string plain(double number) {
  std::string text = text::number_text(number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

void refuse(const std::string& path, std::string_view what, std::string_view code) {
  throw Refusal{.status = 400, .code = code, .message = "[" + path + "] " + std::string(what), .param = path};
}

void refuse_value(const std::string& path, std::string_view expected, const Value* got) {
  refuse(path, "expected " + std::string(expected) + ", got " + (got ? shown(*got) : "nothing"));
}

std::string cut_text(std::string_view text) {
  std::size_t bytes = 0;
  for (int characters = 0; bytes < text.size(); ++characters) {
    if (characters == kShownCharacters) return std::string(text.substr(0, bytes)) + "...";
    bytes += text::utf8_step(text.substr(bytes)).bytes;
  }
  return std::string(text);
}

std::string shown(const Value& value) {
  if (value.array()) return "a list of " + std::to_string(value.array()->size());
  if (value.object()) return "an object";
  return value.string() ? text::to_json(cut_text(*value.string())) : text::to_json(value);
}

std::string path_in(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

std::string path_at(const std::string& path, std::size_t index) { return path + "[" + std::to_string(index) + "]"; }

Fields::Fields(const Value& object, std::string path, Absent absent)
    : fields_(object.object()), path_(std::move(path)), absent_(absent) {
  if (!fields_) refuse_value(path_.empty() ? "body" : path_, "an object", &object);
  read_.resize(fields_->size());
}

std::string Fields::path_of(std::string_view name) const { return path_in(path_, name); }

const Value* Fields::find(std::string_view name) {
  const auto field = std::ranges::find(*fields_, name, &std::pair<std::string, Value>::first);
  if (field == fields_->end()) return nullptr;
  read_[static_cast<std::size_t>(field - fields_->begin())] = true;
  return is_absent(field->second) ? nullptr : &field->second;
}

bool Fields::is_absent(const Value& value) const {
  return value.is_null() || (absent_ == Absent::null_or_empty && (value.array() || value.object()) && !value.truthy());
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->boolean()) refuse_value(path_of(name), "true or false", value);
  return *value->boolean();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->integer() || *value->integer() < least || *value->integer() > most)
    refuse_value(path_of(name), "a whole number from " + std::to_string(least) + " to " + std::to_string(most), value);
  return *value->integer();
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  const double number = value->integer() ? static_cast<double>(*value->integer()) : value->real() ? *value->real() : NAN;
  if (!(number >= least && number <= most)) refuse_value(path_of(name), "a number from " + plain(least) + " to " + plain(most), value);
  return number;
}

const std::string* Fields::text(std::string_view name) {
  const Value* value = find(name);
  if (value && !value->string()) refuse_value(path_of(name), "a text", value);
  return value ? value->string() : nullptr;
}

const Value::Array* Fields::list(std::string_view name) {
  const Value* value = find(name);
  if (value && !value->array()) refuse_value(path_of(name), "a list", value);
  return value ? value->array() : nullptr;
}

const Value* Fields::object(std::string_view name) {
  const Value* value = find(name);
  if (value && !value->object()) refuse_value(path_of(name), "an object", value);
  return value;
}

std::optional<std::string> Fields::one_of(std::string_view name, std::initializer_list<std::string_view> choices) {
  const Value* value = find(name);
  if (!value) return std::nullopt;
  if (!value->string() || std::ranges::find(choices, *value->string()) == choices.end())
    refuse_value(path_of(name), listed(choices), value);
  return *value->string();
}

const Value& Fields::need(std::string_view name, std::string_view expected) {
  const Value* value = find(name);
  if (!value) refuse_value(path_of(name), expected, nullptr);
  return *value;
}

const std::string& Fields::need_text(std::string_view name) {
  need(name, "a text");
  return *text(name);
}

std::string Fields::need_one_of(std::string_view name, std::initializer_list<std::string_view> choices) {
  need(name, listed(choices));
  return *one_of(name, choices);
}

void Fields::refused(std::string_view name, std::string_view why) {
  if (find(name)) refuse(path_of(name), "not supported: " + std::string(why), kUnsupportedParameter);
}

void Fields::without_effect(std::string_view name, std::initializer_list<Value> same) {
  const Value* value = find(name);
  if (!value || std::ranges::find(same, *value) != same.end()) return;
  std::string expected;
  for (const Value& one : same) expected += (expected.empty() ? "" : " or ") + text::to_json(one);
  const Value& first = *same.begin();
  const bool same_kind = (value->boolean() && first.boolean()) || (value->string() && first.string()) || (value->array() && first.array()) ||
                         (value->integer() && first.integer());
  refuse(path_of(name), "expected " + expected + ", got " + shown(*value), same_kind ? kUnsupportedParameter : kInvalidValue);
}

void Fields::finish() const {
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    const auto& [name, value] = (*fields_)[i];
    if (!read_[i] && !is_absent(value)) refuse(path_of(cut_text(name)), "expected a known field, got this one", kUnknownParameter);
  }
}

}  // namespace lapidary::serve
