// What the tests share: the fixtures, the list of broken files, and the error a call ends with.
#pragma once

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <simdjson.h>
#include <unistd.h>

#include "checkpoint/checkpoint.hpp"

namespace lapidary::test {

inline const std::string kRoot = LAPIDARY_ROOT;
inline const std::string kFixtures = kRoot + "/tests/fixtures";

template <class Call>
std::optional<Error> error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

template <class Call>
std::string outcome_of(Call&& call) {
  const auto error = error_of(call);
  return error ? std::string(name_of(error->kind)) : "ok";
}

// One entry of a manifest in fixtures/bad.
struct Case {
  std::string path;
  std::string expect;       // the kind of error, or "ok"
  std::string alternative;  // a second outcome that will do; empty: none
  std::string mentions;     // what the message must contain
};

inline std::vector<Case> cases_about(std::string_view subject, std::string_view manifest = "manifest.json") {
  simdjson::dom::parser parser;
  std::vector<Case> cases;
  for (const simdjson::dom::element entry : parser.load(kFixtures + "/bad/" + std::string(manifest))["cases"]) {
    const auto text = [&](const char* key) {
      std::string_view value;
      return entry[key].get(value) ? std::string() : std::string(value);
    };
    if (text("subject") == subject) {
      cases.push_back({kFixtures + "/bad/" + text("path"), text("expect"), text("or"), text("mentions")});
    }
  }
  return cases;
}

inline bool is_expected(const Case& bad, const std::optional<Error>& error) {
  const std::string outcome = error ? std::string(name_of(error->kind)) : "ok";
  const bool says_where = !error || error->message().find(bad.mentions) != std::string::npos;
  return says_where && (outcome == bad.expect || outcome == bad.alternative);
}

// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("lapidary-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(std::string_view name = "") const { return (path_ / name).string(); }
  void write(std::string_view name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// A safetensors file of any header and data, right or wrong.
inline std::string safetensors_file(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file.append(header).append(data);
}

}  // namespace lapidary::test
