// What the user's environment says.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lapidary {

// Empty where it is not set.
inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The folder that a variable names or, without it, `usual` in the user's own folder; empty where there is neither.
inline std::filesystem::path user_folder(const char* name, const char* usual) {
  if (const std::string named = variable(name); !named.empty()) return named;
  const std::string home = variable("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / usual;
}

}  // namespace lapidary
