#include <algorithm>
#include <array>

#include "checkpoint/config_parts.hpp"

namespace lapidary {

namespace {

// The floating-point encodings leave no choice of group and bits.
struct FloatMode {
  std::string_view name;
  QuantizedAs as;
};
constexpr FloatMode kFloatModes[] = {
    {"mxfp4", {Encoding::mxfp4, 4, 32}},
    {"nvfp4", {Encoding::nvfp4, 4, 16}},
    {"mxfp8", {Encoding::mxfp8, 8, 32}},
};

constexpr std::array kAffineBits = {2, 3, 4, 5, 6, 8};
constexpr std::array kAffineGroups = {32, 64, 128};

// A missing mode is affine also inside an override, whatever the mode of the block.
QuantizedAs read_parameters(const JsonObject& block) {
  const auto mode = block.optional_text("mode").value_or("affine");
  const auto bits = block.integer("bits", 0, 1024);
  const auto group = block.integer("group_size", 0, 65536);
  if (mode == "affine") {
    if (std::ranges::find(kAffineBits, bits) == kAffineBits.end()) {
      block.reject(ErrorKind::unsupported, "bits", "2, 3, 4, 5, 6 or 8");
    }
    if (std::ranges::find(kAffineGroups, group) == kAffineGroups.end()) {
      block.reject(ErrorKind::unsupported, "group_size", "32, 64 or 128");
    }
    return {Encoding::affine, static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(group)};
  }
  for (const auto& [name, as] : kFloatModes) {
    if (mode != name) continue;
    const std::string of_mode = " for " + std::string(name);
    if (bits != as.bits) block.reject(ErrorKind::unsupported, "bits", std::to_string(as.bits) + of_mode);
    if (group != as.group) block.reject(ErrorKind::unsupported, "group_size", std::to_string(as.group) + of_mode);
    return as;
  }
  block.reject(ErrorKind::unsupported, "mode", "affine, mxfp4, nvfp4 or mxfp8");
}

Quantization read_block(const JsonObject& block) {
  Quantization result{.everywhere = read_parameters(block), .overrides = {}};
  for (const auto& field : block.fields()) {
    if (field.key == "group_size" || field.key == "bits" || field.key == "mode") continue;
    std::optional<QuantizedAs> as;
    bool flag = true;
    if (field.value.get(flag) || flag) as = read_parameters(block.object_at(field.key, field.value));
    if (!result.overrides.emplace(field.key, as).second) {
      block.reject(ErrorKind::bad_value, field.key, "one override", "two");
    }
  }
  return result;
}

}  // namespace

std::optional<Quantization> read_quantization(const JsonObject& root) {
  if (const auto block = root.optional_object("quantization")) return read_block(*block);
  const auto copy = root.optional_object("quantization_config");
  if (!copy) return std::nullopt;
  if (copy->optional_text("quant_method")) {
    copy->reject(ErrorKind::unsupported, "quant_method", "bf16 weights or a `quantization` block as MLX writes it");
  }
  return read_block(*copy);
}

}  // namespace lapidary
