#include <cassert>
#include <cstdio>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/whole_file.hpp"

namespace lapidary {

namespace {

void append_quoted(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[7];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      json += escape;
    } else {
      json += c;
    }
  }
  json += '"';
}

std::string header_of(std::span<const NamedTensor> tensors) {
  std::string json = "{";
  std::size_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (json.size() > 1) json += ',';
    append_quoted(json, name);
    json += ":{\"dtype\":\"" + std::string(name_of(tensor.type)) + "\",\"shape\":[";
    std::size_t bytes = bytes_of(tensor.type);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (i > 0) json += ',';
      json += std::to_string(tensor.shape[i]);
      bytes *= static_cast<std::size_t>(tensor.shape[i]);
    }
    assert(bytes == tensor.bytes.size());
    json += "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(begin + bytes) + "]}";
    begin += bytes;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');  // the data begins at a multiple of 8
  return json;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors) {
  const std::string header = header_of(tensors);
  char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  write_whole_file(path, [&](std::ostream& file) {
    file.write(length, sizeof length);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const auto& [name, tensor] : tensors)
      file.write(reinterpret_cast<const char*>(tensor.bytes.data()), static_cast<std::streamsize>(tensor.bytes.size()));
  });
}

}  // namespace lapidary
