#include "cut/cut.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <unistd.h>

#include "checkpoint/checksum.hpp"
#include "checkpoint/sha256.hpp"
#include "checkpoint/whole_file.hpp"
#include "cut/code.hpp"
#include "cut/payload.hpp"
#include "cut/tables.hpp"
#include "link/drafters.hpp"
#include "link/bind.hpp"
#include "stages.hpp"

namespace lapidary::cut {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

class WorkFolder {
 public:
  WorkFolder() : path_((fs::temp_directory_path() / "lapidary-cut-XXXXXX").string()) {
    if (!mkdtemp(path_.data())) fail(ErrorKind::io, path_, "cannot be made");
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string now() {
  const std::time_t time = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", std::gmtime(&time));
  return text;
}

// A manifest shows texts and tables that must live somewhere.
struct Keeper {
  std::deque<std::string> texts;
  std::deque<std::vector<link::CutHash>> hashes;
  std::vector<link::PlacedFile> files;
  std::vector<link::CutDefault> defaults;
  std::optional<link::CutOrigin> assistant, dflash;

  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }

  link::CutOrigin origin(const link::Origin& from) {
    std::vector<link::CutHash>& list = hashes.emplace_back();
    for (const auto& [file, hash] : from.hashes()) list.push_back({keep(file), keep(hash)});
    return {.folder = keep(fs::absolute(from.folder).string()), .model_type = keep(from.model_type),
            .max_positions = from.max_positions, .fingerprint = keep(from.fingerprint()), .hashes = list};
  }
};

// The vectors of a program, or its ids, one after the other in the order of the weights.
template <class T>
std::vector<T> joined(const link::Program& program, const std::vector<const T*>& by_weight) {
  std::vector<T> all;
  for (std::size_t id = 0; id < by_weight.size(); ++id)
    if (by_weight[id]) all.insert(all.end(), by_weight[id], by_weight[id] + std::size_t(program.graph->weights[id].rows) * program.graph->weights[id].cols);
  return all;
}

std::string flat(const auto& tables) {
  FlatWriter writer;
  tables.put(writer);
  return writer.bytes();
}

// Hands on what is written in large pieces, and adds it to the checksum.
class PayloadStream {
 public:
  explicit PayloadStream(std::ostream& file) : file_(file) { waiting_.reserve(kPieceBytes); }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t size = std::min(bytes.size(), kPieceBytes - waiting_.size());
      waiting_.insert(waiting_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      bytes = bytes.subspan(size);
      if (waiting_.size() < kPieceBytes) break;
      sha256_.add_blocks(waiting_);
      flush();
    }
  }
  std::string finish() {
    const std::string hash = sha256_.finish(waiting_);
    flush();
    return hash;
  }

 private:
  static constexpr std::size_t kPieceBytes = 1u << 20;
  void flush() {
    file_.write(reinterpret_cast<const char*>(waiting_.data()), static_cast<std::streamsize>(waiting_.size()));
    waiting_.clear();
  }

  std::ostream& file_;
  std::vector<std::byte> waiting_;
  Sha256 sha256_;
};

void write_payload(std::ostream& file, const std::string& path, const Layout& layout, const link::Manifest& manifest,
                   const Layout::Progress& progress) {
  PayloadStream stream(file);
  layout.write([&](std::span<const std::byte> bytes) {
    stream.write(bytes);
    if (!file) fail(ErrorKind::io, path, std::string("cannot be written: ") + std::strerror(errno));
  }, progress);
  Trailer trailer{.payload_bytes = manifest.payload_bytes, .payload_id = manifest.payload_id};
  std::ranges::copy(stream.finish(), trailer.sha256.begin());
  std::ranges::copy(kPayloadMagic, trailer.magic.begin());
  file.write(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

void copy_file(std::ostream& to, const std::string& path) { to << std::ifstream(path, std::ios::binary).rdbuf(); }

// The drafters to cut it with; a graph is made for them.
link::Pairing drafters_of(const engine::ModelOptions& model) {
  const engine::DraftOptions& draft = model.draft;
  const graph::Shape shape = link::read_config(model.folder).shape;
  const link::Pairing drafters =
      link::sort_drafters(shape, draft.drafters.empty() ? link::find_drafters(model.folder, shape, draft.wanted()) : draft.drafters);
  engine::check_kinds(draft, drafters, model.folder);
  return drafters;
}

// In chunks as large as those of lapidary itself, where that knows this shape; without towers whose tensors the checkpoint does not have.
codegen::Model model_of(const Checkpoint& checkpoint, const link::Pairing& drafters) {
  std::vector<std::string> folders{drafters.assistant, drafters.dflash};
  std::erase(folders, "");
  codegen::Model model = codegen::read_model(checkpoint.folder(), folders);
  if (const graph::Graph* known = link::try_find_graph(model.shape)) model.chunk_max = known->chunk_max;
  if (!link::holds_tower(checkpoint, graph::Owner::vision)) model.vision.reset();
  if (!link::holds_tower(checkpoint, graph::Owner::audio)) model.audio.reset();
  return model;
}

// A program that is cut has the towers' weights among the others. Returns what keeps them.
std::vector<link::TowerWeights> join_towers(link::Program& program) {
  std::vector<link::TowerWeights> towers;
  for (const graph::Tower& tower : program.graph->towers) {
    const link::TowerWeights& weights = towers.emplace_back(program.bind_tower(tower));
    for (std::size_t id = 0; id < weights.matrices.size(); ++id) {
      if (weights.matrices[id].values) program.matrices[id] = weights.matrices[id];
      if (weights.vectors[id]) program.vectors[id] = weights.vectors[id];
    }
  }
  return towers;
}

bool is_library(Product product) { return product == Product::shared_library || product == Product::static_library; }

// What the backend would make of the weights at each start.
void add_prepared(const link::Program& program, Layout& layout, link::Manifest& manifest) {
  const std::size_t prepared_bytes = program.plan.repacked_bytes;
  if (!program.backend->prepare || prepared_bytes == 0) return;
  std::string prepared(prepared_bytes, '\0');
  program.backend->prepare(program, std::as_writable_bytes(std::span(prepared)));
  manifest.prepared_kind = program.backend->prepared_kind(program);
  manifest.prepared = layout.add_block(std::move(prepared));
}

void add_tables(const link::Program& program, const std::string& folder, Layout& layout, link::Manifest& manifest) {
  const std::vector<float> constants = joined(program, program.vectors);
  const std::vector<std::int32_t> orders = joined(program, program.ids);
  std::optional<text::Tokenizer> tokenizer;
  if (text::Tokenizer::is_in(folder)) tokenizer = text::Tokenizer::open(folder);
  const Tables tables{.constants = constants, .orders = orders, .tokenizer = std::move(tokenizer),
                      .chat_template = text::choose_template(folder, program.graph->shape.ple_width > 0),
                      .defaults = decode::read_generation_defaults(folder),
                      .image_tokens = engine::read_image_budget(folder),
                      .soft_ids = engine::SoftIds::of_config(folder)};
  manifest.tables = layout.add_block(flat(tables));
  if (!tables.tokenizer) return;
  manifest.vocabulary = layout.add_block(flat(text::Vocabulary(*tables.tokenizer)));
  manifest.vocabulary_bytes = text::Vocabulary::most_bytes(*tables.tokenizer);
  if (text::has_calls(*tables.tokenizer)) manifest.call_vocabulary = layout.add_block(flat(*text::call_vocabulary(*tables.tokenizer)));
}

// Tells payloads apart that other checkpoints, options or versions of lapidary have made.
std::uint64_t id_of(const link::Manifest& manifest) {
  std::string identity;
  for (const link::CutOrigin* origin : manifest.origins()) identity += std::string(origin->fingerprint) + " ";
  for (const std::uint64_t number : {manifest.tables.checksum, manifest.prepared.checksum, manifest.payload_bytes})
    identity += " " + std::to_string(number);
  return checksum_of(std::as_bytes(std::span(identity)));
}

}  // namespace

CutReport cut(const CutOptions& options) {
  const std::string& folder = options.model.folder;
  const Kit kit = Kit::find(options.compiler);
  options.model.begin_stage("checkpoint");
  const link::Pairing drafters = drafters_of(options.model);
  Checkpoint checkpoint = Checkpoint::open(folder);
  const codegen::Built built(model_of(checkpoint, drafters));
  link::Options resolved = options.model.link;
  resolved.numeric = options.model.numeric.value_or(link::usual_numeric(built.graph()));
  const auto opened = [](const std::string& drafter) { return drafter.empty() ? std::nullopt : std::optional(Checkpoint::open(drafter)); };
  link::Program program = link::link(std::move(checkpoint), opened(drafters.assistant), built.graph(), resolved, opened(drafters.dflash));
  const std::vector<link::TowerWeights> towers = join_towers(program);

  options.model.begin_stage("hashes");
  Keeper keeper;
  link::Manifest manifest{.version = options.version, .compiler = kit.compiler, .date = keeper.keep(now()), .graph = &built.graph(),
                          .target = keeper.origin(program.target)};
  if (program.assistant) manifest.assistant = &keeper.assistant.emplace(keeper.origin(*program.assistant));
  if (program.dflash) manifest.dflash = &keeper.dflash.emplace(keeper.origin(*program.dflash));
  for (const auto& [flag, value] : options.defaults) keeper.defaults.push_back({flag, value});
  manifest.defaults = keeper.defaults;

  options.model.begin_stage("tables");
  Layout layout;
  if (options.weights == Weights::mapped) layout.leave_weights(program);
  else layout.add_weights(program);
  add_prepared(program, layout, manifest);
  add_tables(program, folder, layout, manifest);
  layout.finish();
  std::vector<link::PlacedMatrix> matrices;
  for (std::size_t id = 0; id < layout.matrices().size(); ++id)
    if (graph::is_matrix(built.graph().weights[id].kind)) matrices.push_back(layout.matrices()[id]);
  manifest.matrices = matrices;
  for (const std::string& path : layout.files()) {
    const MappedFile file(path);
    keeper.files.push_back({keeper.keep(fs::absolute(path).string()), file.bytes().size(), sampled_checksum(file.bytes())});
  }
  manifest.files = keeper.files;
  manifest.payload_bytes = layout.bytes();
  manifest.payload_id = id_of(manifest);
  // A library does not know where it lies: it looks where its weights were written.
  const bool library = is_library(options.product), embedded = options.weights != Weights::beside && !library;
  const std::string payload_path = options.output + ".weights";
  if (!embedded)
    manifest.payload_path = keeper.keep(library ? fs::absolute(payload_path).string() : fs::path(payload_path).filename().string());

  options.model.begin_stage("code");
  CutReport report{.payload_bytes = layout.bytes()};
  const WorkFolder work;
  const auto compiling = Clock::now();
  std::ostringstream graph;
  codegen::emit_graph(graph, built.graph(), "gem");
  const std::string compiled = work.path() + "/gem";
  const std::vector<Kit::Format> formats = kit.formats_for(built.graph(), options.product);
  std::vector<std::string> decoders;
  for (const Kit::Format& format : formats) decoders.push_back(format.decoder);
  compile(kit, formats, code_of(manifest, graph.str(), std::string(program.backend->name), decoders), options.product, work.path(), compiled);
  report.compile_seconds = seconds_since(compiling);
  report.program_bytes = fs::file_size(compiled);

  const auto writing = Clock::now();
  if (!embedded)
    write_whole_file(payload_path, [&](std::ostream& file) { write_payload(file, payload_path, layout, manifest, options.progress); });
  write_whole_file(options.output, [&](std::ostream& file) {
    copy_file(file, compiled);
    if (!embedded) return;
    const std::uint64_t padding = (kPayloadPage - report.program_bytes % kPayloadPage) % kPayloadPage;
    file << std::string(static_cast<std::size_t>(padding), '\0');
    write_payload(file, options.output, layout, manifest, options.progress);
  });
  if (library)
    write_whole_file((fs::path(options.output).parent_path() / "lapidary.h").string(),
                     [&](std::ostream& file) { copy_file(file, kit.folder + "/lapidary.h"); });
  if (options.product != Product::static_library)
    fs::permissions(options.output, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
  report.write_seconds = seconds_since(writing);
  return report;
}

}  // namespace lapidary::cut
