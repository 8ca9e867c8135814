// A model small enough to be asked hundreds of times a second: the tiny dense one of the fixtures, with a tokenizer of bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "lapidary.h"

#include "text/value.hpp"

namespace lapidary::fuzz {

inline constexpr std::int32_t kVocab = 256, kContext = 80;

inline void check(bool holds) {
  if (!holds) std::abort();
}

// A folder that goes away with the process.
class Tiny {
 public:
  Tiny() : folder_(std::filesystem::temp_directory_path() / ("lapidary-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    for (const char* name : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(std::string(LAPIDARY_ROOT) + "/tests/fixtures/models/dense-4bit/" + name, folder_ / name,
                                 std::filesystem::copy_options::overwrite_existing);
    std::ofstream(folder_ / "tokenizer.json") << tokenizer();
    lapidary_model_options options = LAPIDARY_INIT(lapidary_model_options);
    options.context_tokens = kContext;
    options.sessions = 2;
    options.threads = 1;
    lapidary_error error = LAPIDARY_INIT(lapidary_error);
    if (lapidary_load(folder_.c_str(), &options, &model_, &error) != LAPIDARY_OK) {
      std::fprintf(stderr, "%s\n", error.message);
      std::abort();
    }
  }
  ~Tiny() {
    check(lapidary_free_model(model_, nullptr) == LAPIDARY_OK);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  lapidary_model* model() const { return model_; }
  std::string path(const char* name) const { return (folder_ / name).string(); }

 private:
  // As many ids as the model has: the bytes. What is special in a chat is spelled out then.
  static std::string tokenizer() {
    using text::Value;
    Value::Object vocab;
    for (int byte = 0; byte < kVocab; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", byte);
      vocab.emplace_back(name, byte);
    }
    return text::to_json(Value::Object{
        {"added_tokens", Value::Array{}},
        {"normalizer", Value::Object{{"type", "Replace"}, {"pattern", Value::Object{{"String", " "}}}, {"content", "\u2581"}}},
        {"pre_tokenizer", nullptr},
        {"model", Value::Object{{"type", "BPE"}, {"byte_fallback", true}, {"vocab", std::move(vocab)}, {"merges", Value::Array{}}}}});
  }

  std::filesystem::path folder_;
  lapidary_model* model_ = nullptr;
};

inline Tiny& tiny() {
  static Tiny model;
  return model;
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ == size_; }
  std::uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

}  // namespace lapidary::fuzz
