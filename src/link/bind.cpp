#include "link/bind.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "numeric/bf16.hpp"

namespace lapidary::link {
namespace {

using graph::WeightClass;
using graph::WeightSlot;
using Dimensions = std::vector<std::int64_t>;

// The text model inside a Hugging Face checkpoint, inside an MLX one, and alone.
constexpr std::string_view kPrefixes[] = {"model.language_model.", "language_model.model.", "model."};
// A DFlash drafter's in some files.
const std::string kDFlashPrefix = "model.";
// Towers inside a Hugging Face checkpoint and inside an MLX one.
constexpr std::string_view kTowerPrefixes[] = {"model.", ""};
// What newer files call the parts of a tower without an encoder.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"vision_embedder.", "embed_vision."},
    {"embed_vision.embedding_projection", "embed_vision.multimodal_embedder.embedding_projection"},
};

std::string spelled(const Dimensions& dimensions) {
  std::string text = "[";
  for (const auto d : dimensions) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

void check_shape(const std::string& name, const Tensor& tensor, const Dimensions& expected) {
  if (tensor.shape != expected)
    fail(ErrorKind::shape_mismatch, name, "shape, expected " + spelled(expected) + ", got " + spelled(tensor.shape));
}

[[noreturn]] void wrong_type(const std::string& name, const std::string& expected, DType got) {
  fail(ErrorKind::dtype_mismatch, name, "type, expected " + expected + ", got " + std::string(name_of(got)));
}

bool is_float(DType type) { return type == DType::bf16 || type == DType::f16 || type == DType::f32; }

template <class Word>
Word load(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

float widen_f16(std::uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                          : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                           : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

float float_at(const Tensor& tensor, std::size_t i) {
  const std::byte* bytes = tensor.bytes.data();
  switch (tensor.type) {
    case DType::bf16: return numeric::from_bf16(load<std::uint16_t>(bytes + 2 * i));
    case DType::f16: return widen_f16(load<std::uint16_t>(bytes + 2 * i));
    default: return load<float>(bytes + 4 * i);
  }
}

// Whether any number has all bits of `exponent` set: infinite or not a number.
template <class Word>
bool has_exponent(std::span<const std::byte> bytes, Word exponent) {
  bool found = false;
  for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word))
    found |= (load<Word>(bytes.data() + at) & exponent) == exponent;
  return found;
}

bool is_finite(const Tensor& tensor, Encoding encoding) {
  switch (tensor.type) {
    case DType::bf16: return !has_exponent<std::uint16_t>(tensor.bytes, 0x7f80);
    case DType::f16: return !has_exponent<std::uint16_t>(tensor.bytes, 0x7c00);
    case DType::f32: return !has_exponent<std::uint32_t>(tensor.bytes, 0x7f800000);
    default:  // scales of one byte: E4M3 has 0x7f and 0xff, E8M0 only 0xff
      return !has_exponent<std::uint8_t>(tensor.bytes, encoding == Encoding::nvfp4 ? 0x7f : 0xff);
  }
}

void check_finite(const std::string& name, const Tensor& tensor, Encoding encoding = Encoding::plain) {
  if (!is_finite(tensor, encoding)) fail(ErrorKind::not_finite, name, "values, expected finite numbers, got NaN or infinity");
}

Dimensions dimensions_of(const WeightSlot& slot, std::int64_t columns) {
  if (slot.kind == WeightClass::experts) return {slot.experts, slot.rows, columns};
  return {slot.rows, columns};
}

std::string storage_mismatch(const char* what, std::int64_t expected, std::int64_t got) {
  return std::string(what) + ", expected " + std::to_string(expected) + " by the config, got " + std::to_string(got);
}

// The classical silent error is an 8-bit matrix read as 4-bit: compare what the shapes say with what the config says.
void check_packing(const std::string& module, const WeightSlot& slot, const Tensor& weight, const Tensor& scales,
                   const QuantizedAs& as) {
  check_shape(module + ".weight", weight, dimensions_of(slot, weight.shape.empty() ? 0 : weight.shape.back()));
  check_shape(module + ".scales", scales, dimensions_of(slot, scales.shape.empty() ? 0 : scales.shape.back()));
  const std::int64_t words = weight.shape.back(), groups = scales.shape.back();
  if (words * 32 != std::int64_t{slot.cols} * as.bits)
    fail(ErrorKind::shape_mismatch, module + ".weight", storage_mismatch("bits per weight", as.bits, 32 * words / slot.cols));
  if (groups * as.group != slot.cols)
    fail(ErrorKind::shape_mismatch, module + ".scales",
         storage_mismatch("inputs per group", as.group, groups ? slot.cols / groups : 0));
}

Matrix plain_view(const WeightSlot& slot, const Tensor& weight) {
  const std::size_t row_bytes = slot.cols * bytes_of(weight.type);
  return {.storage = {Encoding::plain, weight.type, static_cast<std::uint8_t>(8 * bytes_of(weight.type)), 0},
          .experts = slot.experts, .rows = slot.rows, .cols = slot.cols, .values = weight.bytes.data(),
          .row_bytes = row_bytes, .expert_bytes = row_bytes * slot.rows};
}

// Whether the name of any tensor begins with `path`.
bool holds(const Checkpoint& checkpoint, const std::string& path) {
  const auto found = std::ranges::lower_bound(checkpoint.tensors(), path, {}, &NamedTensor::name);
  return found != checkpoint.tensors().end() && found->name.starts_with(path);
}

// A DFlash drafter's tensors have a prefix or none; not both.
void check_once(const Checkpoint& dflash) {
  for (const NamedTensor& tensor : dflash.tensors())
    if (tensor.name.starts_with(kDFlashPrefix) && dflash.find(tensor.name.substr(kDFlashPrefix.size())))
      fail(ErrorKind::duplicate_name, tensor.name, "tensor, expected with this prefix or without it, got both");
}

const char* projector_of(graph::Owner owner) { return owner == graph::Owner::vision ? "embed_vision." : "embed_audio."; }

}  // namespace

bool holds_tower(const Checkpoint& checkpoint, graph::Owner owner) {
  return std::ranges::any_of(kTowerPrefixes, [&](std::string_view prefix) {
    return holds(checkpoint, std::string(prefix) + projector_of(owner));
  });
}

Binder::Binder(const Checkpoint& checkpoint, graph::Owner owner)
    : checkpoint_(checkpoint), owner_(owner), prefix_(kPrefixes[0]), fused_experts_(false) {
  if (is_tower(owner)) {
    prefix_ = kTowerPrefixes[0];
    for (const std::string_view prefix : kTowerPrefixes)
      if (holds(checkpoint, std::string(prefix) + projector_of(owner))) prefix_ = prefix;
    return;
  }
  if (owner == graph::Owner::dflash) {
    check_once(checkpoint);
    return;
  }
  for (const std::string_view prefix : kPrefixes)
    if (checkpoint.find(std::string(prefix) + "embed_tokens.weight")) prefix_ = prefix;
  required(prefix_ + "embed_tokens.weight");
  fused_experts_ = checkpoint.find(prefix_ + "layers.0.experts.gate_up_proj") != nullptr;
}

const Tensor& Binder::required(const std::string& name) const {
  const Tensor* tensor = checkpoint_.find(name);
  if (!tensor) fail(ErrorKind::missing_tensor, name, "tensor, expected in the checkpoint, got nothing of that name");
  return *tensor;
}

// An assistant's projections and clusters lie beside its text model.
std::string Binder::path_of(const WeightSlot& slot) const {
  const std::string name(slot.name);
  if (owner_ == graph::Owner::dflash) return holds(checkpoint_, kDFlashPrefix + name) ? kDFlashPrefix + name : name;
  if (is_tower(owner_)) {
    for (const auto& [usual, renamed] : kRenamed)
      if (name.starts_with(usual) && !holds(checkpoint_, prefix_ + name)) {
        const std::string other = prefix_ + std::string(renamed) + name.substr(usual.size());
        if (holds(checkpoint_, other)) return other;
      }
    return prefix_ + name;
  }
  const bool beside = owner_ == graph::Owner::assistant &&
                      (name.ends_with("_projection") || name.starts_with("masked_embedding."));
  return beside ? name : prefix_ + name;
}

std::string Binder::module_of(const WeightSlot& slot) const {
  std::string module = path_of(slot);
  if (slot.kind == WeightClass::experts) module.insert(module.rfind('.') + 1, "switch_glu.");
  return module;
}

// Hugging Face keeps gate and up of an expert in one tensor and names experts without ".weight".
std::string Binder::values_name(const WeightSlot& slot) const {
  const bool table = is_tower(owner_) && slot.kind == WeightClass::embedding;
  if (slot.kind == WeightClass::vector || slot.kind == WeightClass::kernel || slot.kind == WeightClass::ids || table) return path_of(slot);
  if (slot.kind != WeightClass::experts || !fused_experts_) return module_of(slot) + ".weight";
  const std::string name = prefix_ + std::string(slot.name);
  return name.ends_with("down_proj") ? name : name.substr(0, name.rfind('.')) + ".gate_up_proj";
}

void Binder::vector(const WeightSlot& slot, float* out) const {
  const std::string name = values_name(slot);
  const Tensor& tensor = required(name);
  check_shape(name, tensor, {slot.cols});
  if (!is_float(tensor.type)) wrong_type(name, "BF16, F16 or F32", tensor.type);
  check_finite(name, tensor);
  for (std::int32_t i = 0; i < slot.cols; ++i) out[i] = float_at(tensor, i);
}

// Files have channels before frames and bands, or behind them: their shapes differ, or their bytes do not.
void Binder::kernel(const WeightSlot& slot, float* out) const {
  const std::string name = values_name(slot);
  const Tensor& tensor = required(name);
  if (!is_float(tensor.type)) wrong_type(name, "BF16, F16 or F32", tensor.type);
  const bool square = tensor.shape.size() == 4;  // 3 x 3, or a line of frames
  const std::int64_t taps = square ? 9 : slot.rows, inputs = slot.rows / taps;
  const Dimensions last = square ? Dimensions{slot.cols, 3, 3, inputs} : Dimensions{slot.cols, taps, 1};
  const Dimensions first = square ? Dimensions{slot.cols, inputs, 3, 3} : Dimensions{slot.cols, 1, taps};
  const bool channels_first = tensor.shape != last;
  if (channels_first) check_shape(name, tensor, first);
  check_finite(name, tensor);
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t i = 0; i < inputs; ++i)
      for (std::int64_t output = 0; output < slot.cols; ++output) {
        const std::int64_t at = channels_first ? i * taps + tap : tap * inputs + i;
        *out++ = float_at(tensor, static_cast<std::size_t>(output * slot.rows + at));
      }
}

void Binder::ids(const WeightSlot& slot, std::int32_t* out) const {
  const std::string name = values_name(slot);
  const Tensor& tensor = required(name);
  check_shape(name, tensor, {slot.cols});
  if (tensor.type != DType::i64 && tensor.type != DType::i32) wrong_type(name, "I64 or I32", tensor.type);
  for (std::int32_t i = 0; i < slot.cols; ++i) {
    const std::int64_t id = tensor.type == DType::i64 ? load<std::int64_t>(tensor.bytes.data() + 8 * std::size_t(i))
                                                      : load<std::int32_t>(tensor.bytes.data() + 4 * std::size_t(i));
    if (id < 0 || id >= slot.cols)
      fail(ErrorKind::bad_value, name, "tokens, expected 0 to " + std::to_string(slot.cols - 1) + ", got " + std::to_string(id));
    out[i] = static_cast<std::int32_t>(id);
  }
}

// Of two axes; which of them comes first is the step's affair.
Matrix Binder::position_table(const WeightSlot& slot) const {
  const std::string name = values_name(slot);
  const Tensor& tensor = required(name);
  if (!is_float(tensor.type)) wrong_type(name, "BF16, F16 or F32", tensor.type);
  const std::int64_t positions = slot.rows / 2;
  const bool inside = slot.name.ends_with("pos_embedding");
  check_shape(name, tensor, inside ? Dimensions{positions, 2, slot.cols} : Dimensions{2, positions, slot.cols});
  return plain_view(slot, tensor);
}

float Binder::scalar(const std::string& name) const {
  const Tensor& tensor = required(name);
  if (tensor.bytes.size() != bytes_of(tensor.type)) check_shape(name, tensor, {});
  if (!is_float(tensor.type)) wrong_type(name, "BF16, F16 or F32", tensor.type);
  return float_at(tensor, 0);
}

Clip Binder::clip(const WeightSlot& slot) const {
  std::string path = path_of(slot);
  path.resize(path.rfind('.') + 1);  // the bounds lie beside what they belong to
  const Clip clip{scalar(path + "input_min"), scalar(path + "input_max"), scalar(path + "output_min"), scalar(path + "output_max")};
  if (!(clip.input_min <= clip.input_max && clip.output_min <= clip.output_max))
    fail(ErrorKind::bad_value, path + "input_min", "bounds, expected the least before the most, got them the other way round");
  return clip;
}

Matrix Binder::matrix(const WeightSlot& slot) const {
  if (slot.clipped) {
    WeightSlot plain = slot;
    plain.clipped = false;
    Matrix clipped = matrix(plain);
    clipped.clip = clip(slot);
    return clipped;
  }
  if (is_tower(owner_) && slot.kind == WeightClass::embedding) return position_table(slot);
  if (slot.kind == WeightClass::experts && fused_experts_) return fused_experts(slot);
  const std::string module = module_of(slot);
  const auto& quantization = checkpoint_.config().quantization;
  if (!quantization) return plain_matrix(slot, module);
  const auto found = quantization->overrides.find(module);
  if (found != quantization->overrides.end())
    return found->second ? packed_matrix(slot, module, *found->second) : plain_matrix(slot, module);
  if (checkpoint_.find(module + ".scales")) return packed_matrix(slot, module, quantization->everywhere);
  if (required(module + ".weight").type == DType::u32) required(module + ".scales");
  return plain_matrix(slot, module);
}

Matrix Binder::plain_matrix(const WeightSlot& slot, const std::string& module) const {
  const std::string name = module + ".weight";
  const Tensor& weight = required(name);
  if (!is_float(weight.type)) wrong_type(name, "BF16, F16 or F32", weight.type);
  check_shape(name, weight, dimensions_of(slot, slot.cols));
  return plain_view(slot, weight);
}

Matrix Binder::packed_matrix(const WeightSlot& slot, const std::string& module, const QuantizedAs& as) const {
  const Tensor& weight = required(module + ".weight");
  const Tensor& scales = required(module + ".scales");
  if (weight.type != DType::u32) wrong_type(module + ".weight", "U32", weight.type);
  check_packing(module, slot, weight, scales, as);

  const bool affine = as.encoding == Encoding::affine;
  if (affine ? !is_float(scales.type) : scales.type != DType::u8)
    wrong_type(module + ".scales", affine ? "BF16, F16 or F32" : "U8", scales.type);
  check_finite(module + ".scales", scales, as.encoding);
  const Tensor* biases = nullptr;
  if (affine) {
    biases = &required(module + ".biases");
    check_shape(module + ".biases", *biases, scales.shape);
    if (biases->type != scales.type) wrong_type(module + ".biases", std::string(name_of(scales.type)), biases->type);
    check_finite(module + ".biases", *biases);
  } else if (checkpoint_.find(module + ".biases")) {
    fail(ErrorKind::shape_mismatch, module + ".biases", "tensor, expected none in this mode, got one");
  }

  const std::size_t row_bytes = static_cast<std::size_t>(slot.cols) * as.bits / 8;
  const std::size_t scale_row_bytes = slot.cols / as.group * bytes_of(scales.type);
  return {.storage = {as.encoding, scales.type, as.bits, as.group},
          .experts = slot.experts, .rows = slot.rows, .cols = slot.cols,
          .values = weight.bytes.data(), .scales = scales.bytes.data(), .biases = biases ? biases->bytes.data() : nullptr,
          .row_bytes = row_bytes, .expert_bytes = row_bytes * slot.rows,
          .scale_row_bytes = scale_row_bytes, .scale_expert_bytes = scale_row_bytes * slot.rows};
}

// The rows of gate stand before those of up.
Matrix Binder::fused_experts(const WeightSlot& slot) const {
  const std::string name = values_name(slot);
  const Tensor& weight = required(name);
  if (!is_float(weight.type)) wrong_type(name, "BF16, F16 or F32", weight.type);
  const std::int64_t rows = name.ends_with("gate_up_proj") ? 2 * std::int64_t{slot.rows} : slot.rows;
  check_shape(name, weight, {slot.experts, rows, slot.cols});
  Matrix matrix = plain_view(slot, weight);
  matrix.expert_bytes = matrix.row_bytes * rows;
  if (slot.name.ends_with("up_proj")) matrix.values += matrix.row_bytes * slot.rows;
  return matrix;
}

}  // namespace lapidary::link
