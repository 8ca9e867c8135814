#include "engine/saved.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/sha256.hpp"
#include "checkpoint/whole_file.hpp"
#include "link/slots.hpp"
#include "text/value.hpp"

// The file: kMagic, the SHA-256 of the header in hexadecimal, the header's length, the header (JSON), then the runs of bytes that
// link::for_each_run() names, one after the other.

namespace lapidary::engine {
namespace {

using text::Value;

constexpr std::string_view kMagic = "lapidary-session";
constexpr std::size_t kHashDigits = 64;
constexpr std::uint64_t kMaxHeaderBytes = 64u << 20;
constexpr int kVersion = 2;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// By layer: how many positions of its ring are in use. Where it is the same in another model, so is what lies where.
Value::Array rings_of(const link::MemoryPlan& plan, std::int32_t written) {
  Value::Array rings;
  for (const link::KvPlacement& layer : plan.target_kv())
    rings.emplace_back(std::min((written + graph::kTile - 1) / graph::kTile * graph::kTile, layer.capacity));
  return rings;
}

// What a file must have in common with the model that it is restored to.
Value::Object origin_of(const Model& model) {
  const link::Program& program = model.program;
  return {{"version", kVersion},
          {"checkpoint", program.target.fingerprint()},
          {"backend", program.backend->name},
          {"numeric", name_of(program.numeric)},
          {"kv", program.plan.kv_format.name}};
}

Value::Array to_json(std::span<const decode::SoftBlock> blocks) {
  Value::Array list;
  for (const decode::SoftBlock& block : blocks)
    list.emplace_back(Value::Object{{"begin", block.begin}, {"end", block.end}, {"image", block.is_image}, {"content", block.content}});
  return list;
}

class SavedFile {
 public:
  explicit SavedFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!file_ || error) fail(ErrorKind::io, path, std::string("cannot be read: ") + std::strerror(errno));
    left_bytes_ = size;
    std::array<char, kMagic.size() + kHashDigits> front;
    std::uint64_t header_bytes = 0;
    read(std::as_writable_bytes(std::span(front)));
    if (std::string_view(front.data(), kMagic.size()) != kMagic)
      fail(ErrorKind::bad_value, path, "expected a session that lapidary has saved, got something else");
    read(std::as_writable_bytes(std::span(&header_bytes, 1)));
    if (header_bytes > std::min(kMaxHeaderBytes, left_bytes_)) damaged("header, expected no more bytes than there are");
    std::string json(header_bytes, '\0');
    read(std::as_writable_bytes(std::span(json)));
    if (sha256_hex(bytes_of(json)) != std::string_view(front.data() + kMagic.size(), kHashDigits))
      damaged("header, expected the bytes of its checksum");
    header_ = text::parse_json(json, path);
  }

  void read(std::span<std::byte> bytes) {
    if (bytes.size() > left_bytes_ || !file_.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
      damaged("expected " + std::to_string(bytes.size()) + " more bytes");
    left_bytes_ -= bytes.size();
  }
  std::uint64_t left_bytes() const { return left_bytes_; }

  const Value& field(const char* name) const {
    const Value* value = header_.find(name);
    if (!value) fail(ErrorKind::missing_key, path_, std::string(name) + ", expected in the header, got nothing");
    return *value;
  }
  std::int32_t number(const char* name, std::int32_t least, std::int32_t most) const { return number(field(name), name, least, most); }
  std::vector<std::int32_t> numbers(const char* name, std::size_t most_count, std::int32_t most) const {
    const Value::Array* list = field(name).array();
    if (!list || list->size() > most_count)
      fail(ErrorKind::bad_value, path_, std::string(name) + ", expected a list of at most " + std::to_string(most_count));
    std::vector<std::int32_t> numbers;
    for (const Value& value : *list) numbers.push_back(number(value, name, 0, most));
    return numbers;
  }
  // Of a text of so many tokens.
  std::vector<decode::SoftBlock> blocks(std::int32_t length) const {
    const Value::Array* list = field("soft").array();
    if (!list) bad_block();
    std::vector<decode::SoftBlock> blocks;
    for (const Value& value : *list) {
      const auto part = [&](const char* name) -> const Value& {
        const Value* found = value.find(name);
        if (!found) bad_block();
        return *found;
      };
      decode::SoftBlock& block = blocks.emplace_back();
      block.begin = number(part("begin"), "soft", blocks.size() > 1 ? blocks.end()[-2].end : 0, length - 1);
      block.end = number(part("end"), "soft", block.begin + 1, INT32_MAX);
      block.is_image = part("image") == Value(true);
      const std::string* content = part("content").string();
      if (!content) bad_block();
      block.content = *content;
    }
    return blocks;
  }

  [[noreturn]] void damaged(const std::string& what) const { fail(ErrorKind::truncated, path_, "damaged: " + what + ", got others"); }

 private:
  [[noreturn]] void bad_block() const { fail(ErrorKind::bad_value, path_, "soft, expected a list of blocks with begin, end, image and content, got another"); }
  std::int32_t number(const Value& value, const char* name, std::int32_t least, std::int32_t most) const {
    const std::int64_t* number = value.integer();
    if (!number || *number < least || *number > most)
      fail(ErrorKind::bad_value, path_,
           std::string(name) + ", expected whole numbers from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<std::int32_t>(*number);
  }

  const std::string& path_;
  std::ifstream file_;
  std::uint64_t left_bytes_ = 0;
  Value header_;
};

}  // namespace

void save(Conversation& conversation, const std::string& path) {
  const link::Program& program = conversation.model.program;
  decode::Session& session = conversation.session;
  const link::SlotMemory memory = session.memory();
  const auto each_run = [&](const auto& visit) {
    link::for_each_run(program.plan, session.length(), [&](std::size_t offset, std::size_t bytes) {
      visit(memory.bytes.subspan(offset, bytes));
    });
  };
  std::string hashes;
  each_run([&](std::span<const std::byte> run) { hashes += sha256_hex(run); });
  Value::Array tokens;
  for (const std::int32_t token : session.tokens()) tokens.emplace_back(token);
  Value::Object header = origin_of(conversation.model);
  header.emplace_back("rings", rings_of(program.plan, memory.marks->written));
  header.emplace_back("written", memory.marks->written);
  header.emplace_back("prompt_length", session.prompt_length());
  header.emplace_back("tokens", std::move(tokens));
  header.emplace_back("soft", to_json(session.blocks()));
  header.emplace_back("sha256", sha256_hex(bytes_of(hashes)));
  const std::string json = text::to_json(header);
  const std::uint64_t header_bytes = json.size();
  write_whole_file(path, [&](std::ostream& file) {
    file << kMagic << sha256_hex(bytes_of(json));
    file.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
    file << json;
    each_run([&](std::span<const std::byte> run) {
      file.write(reinterpret_cast<const char*>(run.data()), static_cast<std::streamsize>(run.size()));
    });
  });
}

void restore(Conversation& conversation, const std::string& path) {
  const link::Program& program = conversation.model.program;
  const link::MemoryPlan& plan = program.plan;
  decode::Session& session = conversation.session;
  SavedFile file(path);
  for (const auto& [name, expected] : origin_of(conversation.model))
    if (const Value& value = file.field(name.c_str()); value != expected)
      fail(ErrorKind::shape_mismatch, path, name + ", expected " + text::to_json(expected) + ", got " + text::to_json(value));
  const std::int32_t written = file.number("written", 0, plan.context_tokens);
  const std::vector<std::int32_t> tokens =
      file.numbers("tokens", static_cast<std::size_t>(written), program.graph->shape.vocab - 1);
  const auto length = static_cast<std::int32_t>(tokens.size());
  const std::int32_t prompt_length = file.number("prompt_length", 0, length);
  const std::vector<decode::SoftBlock> blocks = file.blocks(length);
  if (file.field("rings") != Value(rings_of(plan, written)))
    fail(ErrorKind::shape_mismatch, path, "rings of K/V, expected those of this context, got others");
  std::uint64_t expected_bytes = 0;
  link::for_each_run(plan, length, [&](std::size_t, std::size_t bytes) { expected_bytes += bytes; });
  if (file.left_bytes() != expected_bytes)
    file.damaged("K/V, expected " + std::to_string(expected_bytes) + " bytes");

  // From here on what was there before is lost.
  session.rollback(0);
  const link::SlotMemory memory = session.memory();
  std::string hashes;
  link::for_each_run(plan, length, [&](std::size_t offset, std::size_t bytes) {
    const std::span<std::byte> run = memory.bytes.subspan(offset, bytes);
    file.read(run);
    hashes += sha256_hex(run);
  });
  if (Value(sha256_hex(bytes_of(hashes))) != file.field("sha256")) file.damaged("K/V, expected the bytes of their checksum");
  *memory.marks = {.written = written};  // a drafter begins with what comes
  session.adopt(tokens, blocks, prompt_length);
}

}  // namespace lapidary::engine
