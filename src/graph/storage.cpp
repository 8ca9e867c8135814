#include "graph/storage.hpp"

#include <cstdlib>

namespace lapidary::graph {

std::string_view name_of(DType type) {
  switch (type) {
    case DType::boolean: return "BOOL";
    case DType::u8: return "U8";
    case DType::i8: return "I8";
    case DType::f8_e4m3: return "F8_E4M3";
    case DType::f8_e5m2: return "F8_E5M2";
    case DType::i16: return "I16";
    case DType::u16: return "U16";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    case DType::i32: return "I32";
    case DType::u32: return "U32";
    case DType::f32: return "F32";
    case DType::i64: return "I64";
    case DType::u64: return "U64";
    case DType::f64: return "F64";
  }
  std::abort();
}

std::size_t bytes_of(DType type) {
  switch (type) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
    case DType::f8_e4m3:
    case DType::f8_e5m2: return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16: return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32: return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64: return 8;
  }
  std::abort();
}

std::string name_of(const Storage& storage) {
  std::string name;
  switch (storage.encoding) {
    case Encoding::plain:
      name = name_of(storage.type);
      for (char& c : name) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      }
      return name;
    case Encoding::affine: name = "affine" + std::to_string(storage.bits); break;
    case Encoding::mxfp4: name = "mxfp4"; break;
    case Encoding::nvfp4: name = "nvfp4"; break;
    case Encoding::mxfp8: name = "mxfp8"; break;
  }
  return name + '/' + std::to_string(storage.group);
}

}  // namespace lapidary::graph
