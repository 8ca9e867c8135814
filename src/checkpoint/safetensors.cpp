#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <optional>

#include "checkpoint/json.hpp"

namespace lapidary {

namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxRank = 8;

// The JSON between the length field and the data.
std::string_view header_of(std::span<const std::byte> file, std::string_view where) {
  if (file.size() < kLengthBytes) {
    fail(ErrorKind::truncated, std::string(where),
         "file, expected at least 8 bytes, got " + std::to_string(file.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    fail(ErrorKind::header_too_large, std::string(where),
         "header, expected at most " + std::to_string(kMaxHeaderBytes) + " bytes, got " + std::to_string(length));
  }
  if (length > file.size() - kLengthBytes) {
    fail(ErrorKind::truncated, std::string(where),
         "header of " + std::to_string(length) + " bytes, expected it inside the file, got a file of " +
             std::to_string(file.size()) + " bytes");
  }
  return {reinterpret_cast<const char*>(file.data() + kLengthBytes), static_cast<std::size_t>(length)};
}

// Reads the description of one tensor and checks it against the data section.
class TensorReader {
 public:
  TensorReader(std::string_view where, std::span<const std::byte> data) : where_(where), data_(data) {}

  Tensor read(std::string_view name, simdjson::dom::element description) {
    name_ = name;
    simdjson::dom::object members;
    if (description.get(members)) reject(ErrorKind::header_not_json, "", "an object", describe(description));
    std::optional<simdjson::dom::element> type, shape, offsets;
    for (const auto& member : members) {
      if (member.key == "dtype") set_once(type, member);
      if (member.key == "shape") set_once(shape, member);
      if (member.key == "data_offsets") set_once(offsets, member);
    }
    if (!type || !shape || !offsets) {
      reject(ErrorKind::header_not_json, "", "dtype, shape and data_offsets", "an object without one of them");
    }

    Tensor tensor;
    tensor.type = read_type(*type);
    tensor.shape = read_shape(*shape);
    const std::uint64_t wanted_bytes = bytes_of_tensor(tensor);
    tensor.bytes = read_offsets(*offsets);
    if (tensor.bytes.size() != wanted_bytes) {
      reject(ErrorKind::size_mismatch, " data_offsets", std::to_string(wanted_bytes) + " bytes for its shape and dtype",
             std::to_string(tensor.bytes.size()));
    }
    return tensor;
  }

 private:
  void set_once(std::optional<simdjson::dom::element>& slot, const simdjson::dom::key_value_pair& member) {
    if (slot) reject(ErrorKind::header_not_json, " " + std::string(member.key), "the member once", "it twice");
    slot = member.value;
  }

  DType read_type(simdjson::dom::element value) {
    std::string_view text;
    if (!value.get(text)) {
      for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
        if (name_of(static_cast<DType>(i)) == text) return static_cast<DType>(i);
      }
    }
    reject(ErrorKind::unknown_dtype, " dtype", "a type such as BF16, F32 or U32", describe(value));
  }

  std::vector<std::int64_t> read_shape(simdjson::dom::element value) {
    simdjson::dom::array dims;
    if (value.get(dims) || dims.size() > kMaxRank) {
      reject(ErrorKind::bad_shape, " shape", "an array of at most 8 sizes", describe(value));
    }
    std::vector<std::int64_t> shape;
    for (const auto dim : dims) {
      std::int64_t size = 0;
      if (!(dim.is_int64() || dim.is_uint64()) || dim.get(size) || size < 0) {
        reject(ErrorKind::bad_shape, " shape", "sizes from 0 to 2^63 - 1", describe(dim));
      }
      shape.push_back(size);
    }
    return shape;
  }

  std::uint64_t bytes_of_tensor(const Tensor& tensor) {
    std::uint64_t bytes = bytes_of(tensor.type);
    for (const std::int64_t size : tensor.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
        reject(ErrorKind::bad_shape, " shape", "less than 2^64 bytes", "more");
      }
    }
    return bytes;
  }

  std::span<const std::byte> read_offsets(simdjson::dom::element value) {
    simdjson::dom::array pair;
    if (value.get(pair) || pair.size() != 2) {
      reject(ErrorKind::bad_offsets, " data_offsets", "[begin, end]", describe(value));
    }
    std::uint64_t offsets[2] = {};
    for (std::size_t i = 0; i < 2; ++i) {
      const auto offset = pair.at(i).value_unsafe();
      if (!(offset.is_int64() || offset.is_uint64()) || offset.get(offsets[i]) || offsets[i] > data_.size()) {
        reject(ErrorKind::bad_offsets, " data_offsets", "offsets from 0 to " + std::to_string(data_.size()),
               describe(offset));
      }
    }
    const auto [begin, end] = offsets;
    if (begin > end) {
      reject(ErrorKind::bad_offsets, " data_offsets", "begin <= end", std::to_string(begin) + " and " + std::to_string(end));
    }
    return data_.subspan(begin, end - begin);
  }

  [[noreturn]] void reject(ErrorKind kind, std::string_view member, std::string_view expected, std::string_view got) const {
    const std::string what = "tensor " + printable(name_) + std::string(member);
    fail(kind, std::string(where_), what + ", expected " + std::string(expected) + ", got " + std::string(got));
  }

  std::string_view where_;
  std::span<const std::byte> data_;
  std::string_view name_;
};

void check_names(const std::vector<NamedTensor>& sorted, std::string_view where) {
  const auto twin = std::ranges::adjacent_find(sorted, {}, &NamedTensor::name);
  if (twin != sorted.end()) {
    fail(ErrorKind::duplicate_name, std::string(where), "tensor " + printable(twin->name) + ", expected once, got twice");
  }
}

// Every byte of the data belongs to exactly one tensor.
void check_cover(const std::vector<NamedTensor>& tensors, std::span<const std::byte> data, std::string_view where) {
  std::vector<const NamedTensor*> by_place;
  by_place.reserve(tensors.size());
  for (const NamedTensor& named : tensors) by_place.push_back(&named);
  const auto begin_of = [&](const NamedTensor* named) {
    return static_cast<std::size_t>(named->tensor.bytes.data() - data.data());
  };
  std::ranges::sort(by_place, {}, [&](const NamedTensor* named) {
    return std::pair(begin_of(named), named->tensor.bytes.size());
  });

  std::size_t covered = 0;
  for (const NamedTensor* named : by_place) {
    const std::size_t begin = begin_of(named);
    if (begin != covered) {
      fail(begin < covered ? ErrorKind::overlap : ErrorKind::gap, std::string(where),
           "tensor " + printable(named->name) + ", expected to begin at byte " + std::to_string(covered) + ", got " +
               std::to_string(begin));
    }
    covered = begin + named->tensor.bytes.size();
  }
  if (covered != data.size()) {
    fail(ErrorKind::gap, std::string(where),
         "data, expected the tensors to fill " + std::to_string(data.size()) + " bytes, got " + std::to_string(covered));
  }
}

}  // namespace

std::vector<NamedTensor> parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  const std::string_view header = header_of(file, where);
  const auto data = file.subspan(kLengthBytes + header.size());
  const JsonDocument document(header, where, ErrorKind::header_not_json, ErrorKind::bad_utf8);

  std::vector<NamedTensor> tensors;
  TensorReader reader(where, data);
  for (const auto& field : document.root().fields()) {
    if (field.key == "__metadata__") continue;
    tensors.push_back({std::string(field.key), reader.read(field.key, field.value)});
  }
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  check_names(tensors, where);
  check_cover(tensors, data, where);
  return tensors;
}

}  // namespace lapidary
