// Any messages and tools, as JSON text or grown from bytes over the words a chat is made of: an Error, or a prompt.
#include <cstdint>
#include <cstdlib>
#include <iterator>

#include "checkpoint/error.hpp"
#include "text/chat.hpp"

namespace {

using namespace lapidary::text;

void check(bool holds) {
  if (!holds) std::abort();
}

class Growth {
 public:
  Growth(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }

  Value value(int depth) {
    switch (byte() % (depth > 0 ? 8 : 5)) {
      case 0: return Value();
      case 1: return Value(byte() % 2 == 0);
      case 2: return Value(int{byte()});
      case 3: return Value(byte() / 7.0);
      case 4: return Value(word());
      case 5: return list(depth);
      default: return object(depth);
    }
  }

  Value list(int depth) {
    Value::Array items;
    for (int count = byte() % 6; count > 0; --count) items.push_back(value(depth - 1));
    return Value(std::move(items));
  }

 private:
  Value object(int depth) {
    ObjectBuilder fields;
    for (int count = byte() % 8; count > 0; --count) fields.add(word(), value(depth - 1));
    return Value(fields.take());
  }

  std::string word() {
    static constexpr const char* kWords[] = {
        "role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "id", "tool_call_id",
        "tool_responses", "response", "reasoning", "reasoning_content", "description", "parameters", "properties",
        "required", "items", "enum", "nullable", "user", "assistant", "model", "tool", "system", "image", "audio",
        "video", "{\"a\":1}", "{", "string", "object", "array", "<|turn>", "<|channel>", "<channel|>", "<|\"|>", " ", "'", "\xc3\xa9", ""};
    return kWords[byte() % std::size(kWords)];
  }

  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// What is read once needs no more reading.
void check_messages(const Value& messages) {
  try {
    const Value read = checked_messages(messages);
    check(read.array() && !read.array()->empty() && checked_messages(read) == read);
  } catch (const lapidary::Error& error) {
    check(error.what.find("expected ") != std::string::npos);
  }
}

void render_all(const Value& messages, const Value& tools, std::uint8_t flags) {
  check_messages(messages);
  for (const Revision revision : {Revision::april, Revision::may, Revision::canonical}) {
    try {
      const Template with{flags & 1 ? Family::large : Family::small, revision};
      const auto prompt = render(messages, tools, with, {(flags & 2) != 0, (flags & 4) != 0, (flags & 8) != 0});
      check(joined(prompt).starts_with("<bos>"));
      for (std::size_t i = 0; i < prompt.size(); ++i)
        check(!prompt[i].text.empty() && (i == 0 || prompt[i].specials != prompt[i - 1].specials));
    } catch (const lapidary::Error& error) {
      check(error.what.find(", expected ") != std::string::npos);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Growth growth(data, size);
  const std::uint8_t flags = growth.byte();
  if (flags & 16) {
    const Value messages = growth.list(6);
    render_all(messages, growth.list(8), flags);
    return 0;
  }
  try {
    const std::size_t skipped = size > 0 ? 1 : 0;
    const std::string_view json(reinterpret_cast<const char*>(data) + skipped, size - skipped);
    const Value request = parse_json(json, "fuzz");
    check(parse_json(to_json(request), "fuzz") == request);
    const Value *messages = request.find("messages"), *tools = request.find("tools");
    render_all(messages ? *messages : request, tools ? *tools : Value(), flags);
  } catch (const lapidary::Error&) {
  }
  return 0;
}
