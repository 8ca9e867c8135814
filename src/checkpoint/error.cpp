#include "checkpoint/error.hpp"

#include <cstdlib>

namespace lapidary {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::io: return "io";
    case ErrorKind::usage: return "usage";
    case ErrorKind::out_of_memory: return "out_of_memory";
    case ErrorKind::no_graph: return "no_graph";
    case ErrorKind::not_exact: return "not_exact";
    case ErrorKind::not_json: return "not_json";
    case ErrorKind::missing_key: return "missing_key";
    case ErrorKind::wrong_type: return "wrong_type";
    case ErrorKind::bad_value: return "bad_value";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::truncated: return "truncated";
    case ErrorKind::header_too_large: return "header_too_large";
    case ErrorKind::header_not_json: return "header_not_json";
    case ErrorKind::bad_utf8: return "bad_utf8";
    case ErrorKind::duplicate_name: return "duplicate_name";
    case ErrorKind::bad_offsets: return "bad_offsets";
    case ErrorKind::overlap: return "overlap";
    case ErrorKind::gap: return "gap";
    case ErrorKind::size_mismatch: return "size_mismatch";
    case ErrorKind::unknown_dtype: return "unknown_dtype";
    case ErrorKind::bad_shape: return "bad_shape";
    case ErrorKind::missing_tensor: return "missing_tensor";
    case ErrorKind::shape_mismatch: return "shape_mismatch";
    case ErrorKind::dtype_mismatch: return "dtype_mismatch";
    case ErrorKind::not_finite: return "not_finite";
    case ErrorKind::bad_data: return "bad_data";
    case ErrorKind::too_large: return "too_large";
    case ErrorKind::too_short: return "too_short";
  }
  std::abort();
}

}  // namespace lapidary
