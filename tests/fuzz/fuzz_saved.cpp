// Any bytes as a saved session, or a real one with fields of its header changed and the checksum made right: refused, or a session that
// can go on.
#include <cstring>
#include <iterator>

#include "checkpoint/sha256.hpp"
#include "fuzz/tiny.hpp"

namespace {

using namespace lapidary::fuzz;
using lapidary::text::Value;

constexpr std::size_t kFront = 16 + 64;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Real {
  std::string magic, kv;
  Value::Object header;

  Real() {
    const std::string path = tiny().path("real");
    lapidary_session* session = nullptr;
    check(lapidary_open_session(tiny().model(), &session, nullptr) == LAPIDARY_OK);
    const std::int32_t ids[] = {2, 40, 41, 42, 43, 44, 45};
    check(lapidary_rows(session, ids, std::size(ids), nullptr, 0, nullptr, 0, nullptr) == LAPIDARY_OK);
    check(lapidary_save(session, path.c_str(), nullptr) == LAPIDARY_OK && lapidary_free_session(session, nullptr) == LAPIDARY_OK);
    const std::string bytes = read_all(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + kFront, sizeof length);
    magic = bytes.substr(0, 16);
    header = *lapidary::text::parse_json(bytes.substr(kFront + sizeof length, length), "real").object();
    kv = bytes.substr(kFront + sizeof length + length);
  }
};

Value grown(Bytes& bytes, int depth) {
  switch (bytes.next() % (depth > 0 ? 8 : 6)) {
    case 0: return Value();
    case 1: return Value(int{bytes.next()});
    case 2: return Value(-int{bytes.next()});
    case 3: return Value(std::int64_t{1} << bytes.next() % 63);
    case 4: return Value(bytes.next() / 4.0);
    case 5: return Value("x");
    default: {
      Value::Array list;
      for (int left = bytes.next() % 90; left > 0; --left) list.push_back(grown(bytes, depth - 1));
      return list;
    }
  }
}

std::string changed(Bytes& bytes) {
  static const Real real;
  Value::Object header = real.header;
  for (int edits = bytes.next() % 4; edits > 0; --edits) {
    auto& [name, value] = header[bytes.next() % header.size()];
    if (bytes.next() % 8 == 0) name += "x";
    else value = grown(bytes, 1);
  }
  const std::string json = lapidary::text::to_json(header);
  const std::uint64_t length = json.size();
  std::string file = real.magic + lapidary::sha256_hex(std::as_bytes(std::span(json)));
  file.append(reinterpret_cast<const char*>(&length), sizeof length).append(json);
  return file + real.kv.substr(0, bytes.next() % 8 ? std::string::npos : bytes.next() * 16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const std::string path = tiny().path("fuzzed");
  const std::string file = bytes.next() % 4 ? changed(bytes) : std::string(reinterpret_cast<const char*>(data), size);
  std::ofstream(path, std::ios::binary) << file;
  lapidary_session* session = nullptr;
  check(lapidary_open_session(tiny().model(), &session, nullptr) == LAPIDARY_OK);
  const lapidary_status status = lapidary_restore(session, path.c_str(), nullptr);
  check(status == LAPIDARY_OK || status == LAPIDARY_ERROR_DATA);
  std::int32_t ids[kContext + 1];
  std::size_t count = 0;
  check(lapidary_tokens(session, ids, kContext, &count, nullptr) == LAPIDARY_OK);
  check(status == LAPIDARY_OK || count == 0);
  if (count < kContext) {
    ids[count++] = 50;
    lapidary_request request = LAPIDARY_INIT(lapidary_request);
    request.ids = ids;
    request.id_count = count;
    request.max_tokens = 3;
    check(lapidary_begin(session, &request, nullptr) == LAPIDARY_OK && lapidary_prefill(session, nullptr) == LAPIDARY_OK);
    check(lapidary_end(session, nullptr) == LAPIDARY_OK);
  }
  check(lapidary_free_session(session, nullptr) == LAPIDARY_OK);
  return 0;
}
