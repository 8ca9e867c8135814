#include "cli/flags.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "text/value.hpp"

namespace lapidary::cli {
namespace {

constexpr char kBetweenChoices = '|';

template <class T>
std::string number_text(T value) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    return std::to_string(value);
  } else {
    std::string text = text::number_text(std::stod(std::to_string(value)));  // 0.01, not the float that is nearest to it
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text;
  }
}

template <class T>
bool read_number(const std::string& text, T& value) {
  if constexpr (std::numeric_limits<T>::is_integer) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && rest == end;
  } else {
    const auto number = text::read_number(text);
    if (number) value = static_cast<T>(*number);
    return number.has_value();
  }
}

void check_path(const std::string& name, const std::string& text) {
  if (text.empty()) fail(ErrorKind::usage, name, "expected a name, got none");
}

}  // namespace

std::string main_name(const std::string& names) {
  const std::size_t begin = names.find("--");
  return begin == names.npos ? names : names.substr(begin, names.find(',', begin) - begin);
}

template <class T>
std::string range_text(T least, T most) {
  if (most == std::numeric_limits<T>::max() && sizeof(T) < sizeof(std::uint64_t)) return "of at least " + number_text(least);
  return "from " + number_text(least) + " to " + number_text(most);
}

template <class T>
T read_flag(const std::string& name, const std::string& text, T least, T most) {
  T value{};
  if (!read_number(text, value) || !(value >= least && value <= most))
    fail(ErrorKind::usage, name,
         std::string("expected a ") + (std::numeric_limits<T>::is_integer ? "whole " : "") + "number " + range_text(least, most) +
             ", got '" + text + "'");
  return value;
}

std::string described(const std::string& help, std::string range, const std::string& usual) {
  range.erase(0, range.find(' ') + 1);  // "from", "of"
  return help + " (" + range + (usual.empty() ? "" : ", default: " + usual) + ")";
}

std::size_t parse_bytes(const std::string& flag, const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto number = text::read_number(text.substr(0, digits));
  std::string unit = text.substr(digits);
  std::ranges::transform(unit, unit.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  if (unit.ends_with("IB") && unit.size() == 3) unit.resize(1);
  if (unit.ends_with('B')) unit.pop_back();
  const std::size_t power = std::string_view("KMGT").find(unit);
  const int shift = unit.empty() ? 0 : 10 * (static_cast<int>(power) + 1);
  if (!number || unit.size() > 1 || power == std::string_view::npos || std::ldexp(*number, shift) > 0x1p62)
    fail(ErrorKind::usage, flag, "expected bytes such as 900000, 512M, 8G or 1.5GB, got '" + text + "'");
  return static_cast<std::size_t>(std::ldexp(*number, shift));
}

CLI::Option* add_path(CLI::App& command, const std::string& names, std::string& target, const std::string& kind,
                      const std::string& help) {
  const auto read = [name = main_name(names), &target](const std::string& text) {
    check_path(name, text);
    target = text;
  };
  return command.add_option_function<std::string>(names, read, help)->type_name(kind);
}

CLI::Option* add_paths(CLI::App& command, const std::string& names, std::vector<std::string>& target, const std::string& kind,
                       const std::string& help) {
  const auto read = [name = main_name(names), &target](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) check_path(name, text);
    target = texts;
  };
  return command.add_option_function<std::vector<std::string>>(names, read, help)->type_name(kind)->allow_extra_args(false)->take_all();
}

CLI::Option* add_choice(CLI::App& command, const std::string& names, const std::vector<std::string>& values,
                        const std::function<void(const std::string&)>& take, const std::string& help) {
  std::string listed, kind;
  for (const std::string& value : values) {
    listed += (listed.empty() ? "" : ", ") + value;
    kind += (kind.empty() ? std::string() : std::string(1, kBetweenChoices)) + value;
  }
  const auto read = [name = main_name(names), values, listed, take](const std::string& text) {
    if (std::ranges::find(values, text) == values.end())
      fail(ErrorKind::usage, name, "expected one of " + listed + ", got '" + text + "'");
    take(text);
  };
  return command.add_option_function<std::string>(names, read, help)->type_name(kind);
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string kind = option.get_type_name();
  const bool is_kind = std::ranges::any_of(kind, [](char c) { return c >= 'A' && c <= 'Z'; });  // FILE, N
  return is_kind || kind.empty() ? std::vector<std::string>() : CLI::detail::split(kind, kBetweenChoices);
}

template std::string range_text(int, int);
template std::string range_text(std::uint64_t, std::uint64_t);
template std::string range_text(float, float);
template std::string range_text(double, double);
template int read_flag(const std::string&, const std::string&, int, int);
template std::uint64_t read_flag(const std::string&, const std::string&, std::uint64_t, std::uint64_t);
template float read_flag(const std::string&, const std::string&, float, float);
template double read_flag(const std::string&, const std::string&, double, double);

}  // namespace lapidary::cli
