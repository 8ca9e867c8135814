// Writes JSON as it comes: commas and escapes are taken care of.
#pragma once

#include <concepts>
#include <ostream>
#include <string_view>

namespace lapidary::cli {

class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  JsonWriter& key(std::string_view name) {
    string(name);
    out_ << ": ";
    after_key_ = true;
    return *this;
  }
  void string(std::string_view text);
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void number(T value) {
    separate();
    out_ << +value;
  }
  void member(std::string_view name, std::string_view value) { key(name).string(value); }
  template <std::integral T>
  void member(std::string_view name, T value) { key(name).number(value); }

 private:
  void separate() {
    if (!first_ && !after_key_) out_ << ", ";
    first_ = after_key_ = false;
  }
  void open(char bracket) {
    separate();
    out_ << bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ << bracket;
    first_ = false;
  }

  std::ostream& out_;
  bool first_ = true;       // nothing stands before on this level
  bool after_key_ = false;
};

}  // namespace lapidary::cli
