// What is thrown for a mistake in the user's files or flags. Our own bugs are asserts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lapidary {

enum class ErrorKind : std::uint8_t {
  io, usage, out_of_memory, no_graph, not_exact,
  // JSON and values in it
  not_json, missing_key, wrong_type, bad_value, unsupported,
  // safetensors files
  truncated, header_too_large, header_not_json, bad_utf8, duplicate_name, bad_offsets, overlap, gap, size_mismatch,
  unknown_dtype, bad_shape,
  // a checkpoint against its config
  missing_tensor, shape_mismatch, dtype_mismatch, not_finite,
  // files of pictures, sounds and videos
  bad_data, too_large, too_short,
};

std::string_view name_of(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string where;  // the file, tensor, key or flag at fault
  std::string what;   // "..., expected X, got Y"

  std::string message() const { return "[" + where + "] " + what; }
};

[[noreturn]] inline void fail(ErrorKind kind, std::string where, std::string what) {
  throw Error{kind, std::move(where), std::move(what)};
}

}  // namespace lapidary
