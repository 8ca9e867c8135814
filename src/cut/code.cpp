#include "cut/code.hpp"

#include <bit>
#include <sstream>

namespace lapidary::cut {
namespace {

std::string quoted(std::string_view text) {
  std::string code = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    // Octal digits are three at most: what follows is never taken for one of them.
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\' || c == '?')
      code += {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + (byte >> 3 & 7)), static_cast<char>('0' + (byte & 7))};
    else code += c;
  }
  return code + '"';
}

std::string number(std::uint64_t value) { return value == link::kNowhere ? "kNowhere" : std::to_string(value) + "u"; }

std::string spelled(const graph::Storage& storage) {
  return "{static_cast<graph::Encoding>(" + std::to_string(static_cast<int>(storage.encoding)) + "), static_cast<graph::DType>(" +
         std::to_string(static_cast<int>(storage.type)) + "), " + std::to_string(storage.bits) + ", " + std::to_string(storage.group) + "}";
}

std::string spelled(const link::Clip& clip) {
  if (clip == link::Clip{}) return "{}";
  std::string text;
  for (const float bound : {clip.input_min, clip.input_max, clip.output_min, clip.output_max})
    text += (text.empty() ? "" : ", ") + ("std::bit_cast<float>(" + number(std::bit_cast<std::uint32_t>(bound))) + ")";
  return "{" + text + "}";
}

std::string spelled(const link::PlacedBlock& block) {
  return "{" + number(block.offset) + ", " + number(block.bytes) + ", " + number(block.checksum) + "}";
}

// A table, or none: an array must not be empty. Returns what to call it.
template <class Items, class Spell>
std::string write_table(std::ostream& out, const char* type, const std::string& name, const Items& items, Spell spell) {
  if (items.empty()) return "{}";
  out << "constexpr " << type << " " << name << "[] = {\n";
  for (const auto& item : items) out << "    {" << spell(item) << "},\n";
  out << "};\n";
  return name;
}

std::string write_origin(std::ostream& out, const std::string& name, const link::CutOrigin& origin) {
  const std::string hashes = write_table(out, "CutHash", name + "_hashes", origin.hashes, [](const link::CutHash& hash) {
    return quoted(hash.file) + ", " + quoted(hash.sha256);
  });
  out << "constexpr CutOrigin " << name << " = {" << quoted(origin.folder) << ", " << quoted(origin.model_type) << ", "
      << origin.max_positions << ", " << quoted(origin.fingerprint) << ", " << hashes << "};\n";
  return name;
}

}  // namespace

std::string code_of(const link::Manifest& manifest, const std::string& graph, const std::string& backend,
                    const std::vector<std::string>& decoders) {
  std::ostringstream out;
  out << graph << "\n#include <bit>\n#include \"" << backend << "/backend.hpp\"\n#include \"link/manifest.hpp\"\n#include \"media/formats.hpp\"\n\n"
      << "namespace lapidary::link {\nnamespace {\n\n";
  const std::string target = write_origin(out, "target", manifest.target);
  const auto drafter = [&](const char* name, const link::CutOrigin* origin) { return origin ? "&" + write_origin(out, name, *origin) : "nullptr"; };
  const std::string assistant = drafter("assistant", manifest.assistant), dflash = drafter("dflash", manifest.dflash);
  const std::string defaults = write_table(out, "CutDefault", "defaults", manifest.defaults, [](const link::CutDefault& item) {
    return quoted(item.flag) + ", " + quoted(item.value);
  });
  const std::string files = write_table(out, "PlacedFile", "files", manifest.files, [](const link::PlacedFile& file) {
    return quoted(file.path) + ", " + number(file.bytes) + ", " + number(file.checksum);
  });
  const std::string matrices = write_table(out, "PlacedMatrix", "matrices", manifest.matrices, [](const link::PlacedMatrix& placed) {
    std::string text = spelled(placed.storage) + ", " + std::to_string(placed.file);
    for (const std::uint64_t value : {placed.values, placed.scales, placed.biases, placed.row_bytes, placed.expert_bytes,
                                      placed.scale_row_bytes, placed.scale_expert_bytes})
      text += ", " + number(value);
    return text + ", " + spelled(placed.clip);
  });
  out << "constexpr Manifest kManifest = {\n    .version = " << quoted(manifest.version) << ", .compiler = " << quoted(manifest.compiler)
      << ", .date = " << quoted(manifest.date) << ",\n    .graph = &graph::gem, .target = " << target << ", .assistant = " << assistant
      << ", .dflash = " << dflash << ", .defaults = " << defaults << ",\n    .matrices = " << matrices << ", .files = " << files
      << ",\n    .payload_path = " << quoted(manifest.payload_path) << ", .payload_bytes = " << number(manifest.payload_bytes)
      << ", .payload_id = " << number(manifest.payload_id) << ",\n    .tables = " << spelled(manifest.tables)
      << ", .vocabulary = " << spelled(manifest.vocabulary) << ", .call_vocabulary = " << spelled(manifest.call_vocabulary)
      << ", .vocabulary_bytes = " << number(manifest.vocabulary_bytes) << ",\n    .prepared_kind = " << quoted(manifest.prepared_kind) << ", .prepared = " << spelled(manifest.prepared) << "};\n\n}  // namespace\n\n"
      << "constexpr const Backend* kBackends[] = {&" << backend << "::kBackend};\n"
      << "std::span<const Backend* const> backends() { return kBackends; }\n\n}  // namespace lapidary::link\n\n"
      << "namespace lapidary::graph {\nconstexpr const Graph* kGraphs[] = {&gem};\n"
      << "std::span<const Graph* const> compiled_graphs() { return kGraphs; }\n}  // namespace lapidary::graph\n\n"
      << "namespace lapidary::media {\nconstinit const Decoders kDecoders = {";
  for (const std::string& decoder : decoders) out << decoder << ", ";
  out << "};\n}  // namespace lapidary::media\n\n"
      << "namespace lapidary::cut {\nconst link::Manifest& manifest();\nconst link::Manifest& manifest() { return link::kManifest; }\n"
      << "}  // namespace lapidary::cut\n";
  return out.str();
}

}  // namespace lapidary::cut
