// The pairing of a target with its drafters: which fit, which are found, and how an assistant's weights are bound.
#include <boost/ut.hpp>

#include <functional>

#include "checkpoint/pair.hpp"
#include "link/drafters.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"

namespace lapidary::test::assistant_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace
using graph::LayerKind;
namespace fs = std::filesystem;

const std::string kTarget = kFixtures + "/models/ple-bf16";
const std::string kAssistant = kFixtures + "/assistants/ple-bf16";
const std::string kDFlash = kFixtures + "/dflash/ple-bf16";
const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kOrdering = "masked_embedding.token_ordering";

graph::Shape shape_of(const std::string& folder) { return link::read_config(folder).shape; }

void expect_mentions(const std::optional<Error>& error, ErrorKind kind, const std::vector<std::string>& words) {
  expect(fatal(error.has_value())) << "nothing was refused";
  expect(error->kind == kind) << error->message();
  for (const std::string& word : words) expect(error->message().find(word) != std::string::npos) << error->message();
}

suite<"check_pair"> pair_suite = [] {
  "the assistants of all fixtures fit their targets"_test = [] {
    std::vector<Pair> pairs = fixture_pairs();
    pairs.push_back(pebble_pair());
    for (const Pair& pair : pairs)
      expect(outcome_of([&] {
               check_pair(shape_of(pair.target), *link::read_config(pair.assistant).assistant, pair.assistant);
             }) == "ok")
          << pair.name;
  };

  "drafts read the last layer of their kind that owns its K/V"_test = [] {
    graph::Shape target = shape_of(kTarget);  // six layers, the upper three share
    expect(eq(drafter_source(target, LayerKind::sliding), 1));
    expect(eq(drafter_source(target, LayerKind::full), 2));
    for (int l = 0; l < target.layer_count; ++l) target.layers[l].kv_layer = l;
    expect(eq(drafter_source(target, LayerKind::sliding), 4));
    expect(eq(drafter_source(target, LayerKind::full), 5));
    target.layer_count = 2;
    expect(eq(drafter_source(target, LayerKind::full), -1));
  };

  struct Rule {
    std::string name;
    std::function<void(graph::Shape& target, graph::AssistantShape& assistant)> breaks;
    std::vector<std::string> words;  // the key and both values
  };
  const Rule rules[] = {
      {"the vocabulary", [](auto&, auto& assistant) { assistant.text.vocab = 512; }, {"vocab_size", "256", "512"}},
      {"the width of the target", [](auto&, auto& assistant) { assistant.target_hidden = 192; },
       {"backbone_hidden_size", "128", "192"}},
      {"the width of heads in sliding layers", [](auto&, auto& assistant) { assistant.text.layers[0].head_dim = 40; },
       {"head_dim", "32", "40"}},
      {"the width of heads in full layers", [](auto&, auto& assistant) { assistant.text.layers[3].head_dim = 48; },
       {"head_dim", "64", "48"}},
      {"the window", [](auto&, auto& assistant) { assistant.text.window = 13; }, {"sliding_window", "12", "13"}},
      {"a multiple of the key/value heads", [](auto& target, auto&) { target.layers[1].kv_heads = 3; },
       {"num_attention_heads", "3", "4"}},
      {"a multiple of the key/value heads in full layers", [](auto& target, auto&) { target.layers[2].kv_heads = 8; },
       {"num_attention_heads", "8", "4"}},
      {"sliding layers to read", [](auto& target, auto&) {
         for (int l = 0; l < target.layer_count; ++l) target.layers[l].kind = LayerKind::full;
       }, {"layer_types"}},
      {"full layers to read", [](auto& target, auto&) { target.layer_count = 2; }, {"layer_types"}},
  };
  for (const Rule& rule : rules)
    test("an assistant needs " + rule.name) = [&rule] {
      graph::Shape target = shape_of(kTarget);
      graph::AssistantShape assistant = *link::read_config(kAssistant).assistant;
      rule.breaks(target, assistant);
      std::vector<std::string> words = rule.words;
      words.push_back("[the assistant]");
      expect_mentions(error_of([&] { check_pair(target, assistant, "the assistant"); }), ErrorKind::shape_mismatch, words);
    };

  "layers that no draft reads do not matter"_test = [] {
    graph::Shape target = shape_of(kTarget);
    graph::AssistantShape assistant = *link::read_config(kAssistant).assistant;
    target.layers[0].kv_heads = 3;  // layer 1 is the last sliding one with its own K/V
    target.layers[0].head_dim = 8;
    for (int l = 0; l < assistant.text.layer_count; ++l) {
      assistant.text.layers[l].kind = LayerKind::full;
      assistant.text.layers[l].head_dim = 64;
    }
    assistant.text.window = 13;
    expect(outcome_of([&] { check_pair(target, assistant, ""); }) == "ok");
  };
};

std::string config_of(const std::string& folder) { return read_text_file(folder + "/config.json"); }

std::string replaced(std::string text, const std::string& old_part, const std::string& new_part) {
  const auto at = text.find(old_part);
  expect(fatal(at != std::string::npos)) << old_part;
  return text.replace(at, old_part.size(), new_part);
}

std::string fitting() { return config_of(kAssistant); }
std::string dflash() { return config_of(kDFlash); }
std::string other_vocabulary() { return replaced(fitting(), "\"vocab_size\": 256", "\"vocab_size\": 512"); }
std::string not_compiled() { return replaced(fitting(), "\"intermediate_size\": 128", "\"intermediate_size\": 136"); }

// Folders that hold a config and no weights.
class Models {
 public:
  std::string add(const std::string& name, const std::string& config) {
    fs::create_directories(path(name));
    folder_.write(name + "/config.json", config);
    return path(name);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

suite<"pair"> graph_suite = [] {
  "a pair has the graph that was compiled for both"_test = [] {
    std::vector<Pair> pairs = fixture_pairs();
    pairs.push_back(pebble_pair());
    for (const Pair& pair : pairs) {
      const link::Pairing found = link::pair(shape_of(pair.target), {pair.assistant}, pair.target);
      expect(found.graph == &link::find_graph(shape_of(pair.target), pair.target)) << pair.name;
      expect(found.graph->assistant && found.graph->assistant->centroids == link::read_config(pair.assistant).assistant->centroids);
      expect(found.assistant == pair.assistant && found.dflash.empty());
    }
  };

  "neither weights nor the same context are needed"_test = [] {
    Models models;
    const std::string folder = models.add(
        "assistant", replaced(fitting(), "\"max_position_embeddings\": 4096", "\"max_position_embeddings\": 512"));
    const graph::Shape target = shape_of(kTarget);
    expect(link::pair(target, {folder}, kTarget).graph == link::pair(target, {kAssistant}, kTarget).graph);
    expect(link::pair(target, {}, kTarget).graph == &link::find_graph(target, kTarget));
  };

  "what cannot be a pair is refused with the reason"_test = [] {
    Models models;
    const graph::Shape target = shape_of(kTarget);
    const auto error_with = [&](const std::string& folder) {
      return error_of([&] { link::pair(target, {folder}, kTarget); });
    };
    const auto expect_refused = [&](const std::string& name, const std::string& config, ErrorKind kind, const char* word) {
      expect_mentions(error_with(models.add(name, config)), kind, {models.path(name), word});
    };
    expect_mentions(error_with(kTarget), ErrorKind::unsupported, {kTarget, "model_type", "gemma4"});
    expect_mentions(error_with(kFixtures + "/dflash/dense-bf16"), ErrorKind::shape_mismatch, {"dense-bf16", "num_target_layers"});
    expect_mentions(error_with(models.path("nowhere")), ErrorKind::io, {"nowhere/config.json"});
    expect_mentions(error_with(models.path("")), ErrorKind::io, {"config.json"});
    expect_refused("broken", fitting().substr(0, 400), ErrorKind::not_json, "config.json");
    expect_refused("other", other_vocabulary(), ErrorKind::shape_mismatch, "vocab_size");
    expect_refused("wider", not_compiled(), ErrorKind::no_graph, "extra_graphs");
    expect_refused("coarser", replaced(fitting(), "\"num_centroids\": 32", "\"num_centroids\": 16"), ErrorKind::no_graph,
                   "extra_graphs");
    const std::string top_k = "\"centroid_intermediate_top_k\": ";
    expect_refused("narrower", replaced(fitting(), top_k + "8", top_k + "4"), ErrorKind::no_graph, "extra_graphs");
    expect_refused("late", replaced(dflash(), "\"block_size\": 16", "\"block_size\": 15"), ErrorKind::no_graph, "extra_graphs");
    expect_refused("other-depth", replaced(dflash(), "\"num_target_layers\": 6", "\"num_target_layers\": 7"), ErrorKind::shape_mismatch,
                   "num_target_layers");
    for (const std::string& twice : {kAssistant, kDFlash})
      expect_mentions(error_of([&] { link::pair(target, {twice, twice}, kTarget); }), ErrorKind::usage, {twice, "one drafter of a kind"});
  };

  "a drafter of each kind, in any order, and each alone"_test = [] {
    const graph::Shape target = shape_of(kTarget);
    for (const auto& folders : {std::vector{kAssistant, kDFlash}, {kDFlash, kAssistant}, {kDFlash}, {kAssistant}}) {
      const link::Pairing found = link::pair(target, folders, kTarget);
      expect(found.graph->assistant && found.graph->dflash);
      expect(eq(found.assistant.empty(), std::ranges::count(folders, kAssistant) == 0));
      expect(eq(found.dflash.empty(), std::ranges::count(folders, kDFlash) == 0));
    }
  };

  "two drafters for one target have a graph each"_test = [] {
    const graph::Shape target = shape_of(kFixtures + "/models/moe-bf16");
    for (const char* name : {"moe-bf16", "moe-4bit"}) {
      const std::string folder = kFixtures + "/dflash/" + name;
      const link::Pairing found = link::pair(target, {folder}, "");
      expect(found.dflash == folder && *found.graph->dflash == *link::read_config(folder).dflash) << name;
    }
  };
};

suite<"find_drafters"> find_suite = [] {
  const auto found_beside = [](const Models& models, const std::string& name) {
    const auto folders = link::find_drafters(models.path(name), shape_of(kTarget));
    std::string names;
    for (const std::string& folder : folders) {
      expect(fs::equivalent(fs::path(folder).parent_path(), models.path("")));
      names += (names.empty() ? "" : " and ") + fs::path(folder).filename().string();
    }
    return names.empty() ? "nothing" : names;
  };

  "pebble's drafters are found beside it, however the path is spelled"_test = [] {
    const graph::Shape pebble = shape_of(kRoot + "/models/pebble");
    for (const char* path : {"/models/pebble", "/models/pebble/", "/models/../models/./pebble/."}) {
      const auto folders = link::find_drafters(kRoot + path, pebble);
      expect(fatal(folders.size() == 2u)) << path;
      expect(fs::equivalent(folders[0], kRoot + "/models/pebble-assistant"));
      expect(fs::equivalent(folders[1], kRoot + "/models/pebble-dflash"));
    }
  };

  "nothing is found where nothing fits"_test = [found_beside] {
    Models models;
    expect(eq(found_beside(models, "nowhere"), std::string("nothing")));
    models.add("target", config_of(kTarget));
    expect(eq(found_beside(models, "target"), std::string("nothing")));
    models.add("target-other", other_vocabulary());
    models.add("target-new", not_compiled());
    models.add("target-copy", config_of(kTarget));
    models.add("target-pebble", config_of(kRoot + "/models/pebble-assistant"));
    expect(eq(found_beside(models, "target"), std::string("nothing")));
  };

  "of several the longest common beginning of the name wins, then the order of names"_test = [found_beside] {
    Models models;
    models.add("gem-7b-it", config_of(kTarget));
    const auto add_and_find = [&](const std::string& name) {
      models.add(name, fitting());
      return found_beside(models, "gem-7b-it");
    };
    expect(eq(add_and_find("zebra"), std::string("zebra")));
    expect(eq(add_and_find("aardvark"), std::string("aardvark")));
    expect(eq(add_and_find("gem-9b-assistant"), std::string("gem-9b-assistant")));
    expect(eq(add_and_find("gem-7b"), std::string("gem-7b")));
    expect(eq(add_and_find("gem-7b-it-assistant-8bit"), std::string("gem-7b-it-assistant-8bit")));
    expect(eq(add_and_find("gem-7b-it-assistant"), std::string("gem-7b-it-assistant")));
    expect(eq(add_and_find("gem-7b-it-zoo"), std::string("gem-7b-it-assistant")));
    models.add("gem-7b-it-aaa", other_vocabulary());
    expect(eq(found_beside(models, "gem-7b-it"), std::string("gem-7b-it-assistant"))) << "what does not fit is passed over";
  };

  "one of each kind that is wanted, each by its own name"_test = [found_beside] {
    Models models;
    models.add("gem-7b-it", config_of(kTarget));
    models.add("gem-assistant", fitting());
    models.add("gem-7b-DFlash", dflash());
    models.add("other-DFlash", dflash());
    expect(eq(found_beside(models, "gem-7b-it"), std::string("gem-7b-DFlash and gem-assistant")));
    const auto wanted = [&](link::Drafters kinds) { return link::find_drafters(models.path("gem-7b-it"), shape_of(kTarget), kinds); };
    expect(wanted({.assistant = false, .dflash = true}) == std::vector{models.path("gem-7b-DFlash")});
    expect(wanted({.assistant = true, .dflash = false}) == std::vector{models.path("gem-assistant")});
    expect(wanted({.assistant = false, .dflash = false}).empty());
  };

  "whatever else lies beside a model is passed over"_test = [found_beside] {
    Models models;
    models.add("target", config_of(kTarget));
    models.add("zebra", fitting());
    models.folder().write("zebra/model.safetensors", "no weights");
    models.folder().write("target-file", "not a folder");
    models.folder().write("config.json", fitting());
    models.add("target-empty", "");
    models.add("target-list", "[]");
    models.add("target-cut", fitting().substr(0, 700));
    models.add("target-bytes", std::string("\0\xff\xfe{", 4));
    models.add("target-deep", std::string(5000, '['));
    fs::create_directories(models.path("target-bare"));
    fs::create_directories(models.path("target-odd/config.json"));
    fs::create_directories(models.path("target-link"));
    fs::create_symlink("nowhere", models.path("target-link/config.json"));
    fs::create_symlink("nowhere", models.path("target-dangling"));
    fs::create_symlink("target-loop", models.path("target-loop"));
    expect(eq(found_beside(models, "target"), std::string("zebra")));
    fs::create_symlink("zebra", models.path("target-by-link"));
    expect(eq(found_beside(models, "target"), std::string("target-by-link"))) << "a link to an assistant is one";
  };
};

// A copy of the assistant with other tensors.
class Rewritten {
 public:
  using Change = std::function<void(std::vector<NamedTensor>&)>;

  explicit Rewritten(const Change& change) {
    const Checkpoint source = Checkpoint::open(kAssistant);
    std::vector<NamedTensor> tensors = source.tensors();
    change(tensors);
    write_safetensors(folder_.path("model.safetensors"), tensors);
    folder_.write("config.json", fitting());
  }
  // With the tensor of this name changed only.
  Rewritten(const std::string& name, const std::function<void(Tensor&)>& change)
      : Rewritten([&](std::vector<NamedTensor>& tensors) {
          const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
          expect(fatal(found != tensors.end())) << name;
          change(found->tensor);
        }) {}

  link::Program linked() const { return Loaded::load(kTarget, {}, folder_.path()); }
  std::optional<Error> error() const {
    return error_of([&] { linked(); });
  }

 private:
  TemporaryFolder folder_;
};

std::vector<std::int64_t> ordering() {
  const Checkpoint source = Checkpoint::open(kAssistant);
  const Tensor* tensor = source.find(kOrdering);
  std::vector<std::int64_t> order(tensor->bytes.size() / sizeof(std::int64_t));
  std::memcpy(order.data(), tensor->bytes.data(), tensor->bytes.size());
  return order;
}

template <class T>
Rewritten with_ordering(const std::vector<T>& order, DType type) {
  return Rewritten(kOrdering, [&](Tensor& tensor) {
    tensor = {type, {static_cast<std::int64_t>(order.size())}, std::as_bytes(std::span(order))};
  });
}

std::vector<std::int32_t> bound_order(const link::Program& program) {
  for (std::size_t i = 0; i < program.ids.size(); ++i)
    if (program.ids[i]) return {program.ids[i], program.ids[i] + program.graph->weights[i].cols};
  return {};
}

suite<"binding an assistant"> bind_suite = [] {
  "every tensor of an assistant is missed by its name"_test = [] {
    const Checkpoint source = Checkpoint::open(kAssistant);
    expect(source.tensors().size() > 45u);
    for (const NamedTensor& missing : source.tensors()) {
      if (missing.name == kEmbedding) continue;
      const Rewritten without([&](std::vector<NamedTensor>& tensors) {
        std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == missing.name; });
      });
      expect_mentions(without.error(), ErrorKind::missing_tensor, {missing.name});
    }
  };

  "the embedding of an assistant is missed by its name, though all other names follow from it"_test = [] {
    const Rewritten without([](std::vector<NamedTensor>& tensors) {
      std::erase_if(tensors, [](const NamedTensor& tensor) { return tensor.name == kEmbedding; });
    });
    expect_mentions(without.error(), ErrorKind::missing_tensor, {"embed_tokens"});
  };

  "every tensor of an assistant has one shape"_test = [] {
    const Checkpoint source = Checkpoint::open(kAssistant);
    for (const NamedTensor& entry : source.tensors()) {
      const Rewritten deeper(entry.name, [](Tensor& tensor) { tensor.shape.push_back(1); });
      expect_mentions(deeper.error(), ErrorKind::shape_mismatch, {entry.name});
      const Rewritten shorter(entry.name, [](Tensor& tensor) {
        tensor.bytes = tensor.bytes.first(tensor.bytes.size() / tensor.shape[0] * (tensor.shape[0] / 2));
        tensor.shape[0] /= 2;
      });
      const std::int64_t rows = entry.tensor.shape[0];
      expect_mentions(shorter.error(), ErrorKind::shape_mismatch,
                      {entry.name, "expected [" + std::to_string(rows), "got [" + std::to_string(rows / 2)});
    }
  };

  "every tensor of an assistant has a type that can be read"_test = [] {
    const Checkpoint source = Checkpoint::open(kAssistant);
    for (const NamedTensor& entry : source.tensors()) {
      const DType type = entry.name == kOrdering ? DType::u64 : DType::u16;  // as wide as it should be
      const Rewritten other(entry.name, [type](Tensor& tensor) { tensor.type = type; });
      expect_mentions(other.error(), ErrorKind::dtype_mismatch, {entry.name, std::string(name_of(type))});
    }
    const std::vector<float> floats(256, 1.0f);
    expect_mentions(with_ordering(floats, DType::f32).error(), ErrorKind::dtype_mismatch, {kOrdering, "I64", "F32"});
  };

  "an order with a token outside of the vocabulary is refused"_test = [] {
    const auto expect_refused = [](auto order, DType type, int place, auto token) {
      order[place] = token;
      expect_mentions(with_ordering(order, type).error(), ErrorKind::bad_value,
                      {kOrdering, "0 to 255", "got " + std::to_string(token)});
    };
    const auto wide = ordering();
    const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
    for (const int place : {0, 100, 255}) {
      for (const std::int64_t token : {std::int64_t{256}, std::int64_t{-1}, std::int64_t{1} << 32, INT64_MIN, INT64_MAX})
        expect_refused(wide, DType::i64, place, token);
      for (const std::int32_t token : {256, -1, INT32_MIN, INT32_MAX}) expect_refused(narrow, DType::i32, place, token);
    }
  };

  "an order is the same as I64 and as I32"_test = [] {
    const auto wide = ordering();
    const std::vector<std::int32_t> order(wide.begin(), wide.end());
    expect(bound_order(Loaded::load(kTarget, {}, kAssistant)) == order);
    expect(bound_order(with_ordering(order, DType::i32).linked()) == order);
    expect(!std::ranges::is_sorted(order)) << "the fixture should have an order that is not the identity";
  };

  "norms of an assistant are finite"_test = [] {
    std::vector<std::uint16_t> values(64, 0x3f80);
    values.back() = 0x7f80;  // infinity as BF16
    const Rewritten infinite("model.layers.3.input_layernorm.weight",
                             [&](Tensor& tensor) { tensor.bytes = std::as_bytes(std::span(values)); });
    expect_mentions(infinite.error(), ErrorKind::not_finite, {"model.layers.3.input_layernorm.weight"});
  };

  "an assistant without clusters does not bind where they are needed"_test = [] {
    Checkpoint other = Checkpoint::open(kFixtures + "/assistants/dense-bf16");
    expect_mentions(error_of([&] { link::link(Checkpoint::open(kTarget), std::move(other), link::find_graph(shape_of(kTarget), kTarget), {}); }),
                    ErrorKind::missing_tensor, {"masked_embedding."});
  };
};

// Of an owner's weights: vectors and orders are copied, matrices stay mapped.
std::size_t copied_bytes(const graph::Graph& graph, graph::Owner owner) {
  std::size_t bytes = 0;
  for (const graph::WeightSlot& slot : graph.weights)
    if (slot.owner == owner && (slot.kind == graph::WeightClass::vector || slot.kind == graph::WeightClass::kernel || slot.kind == graph::WeightClass::ids))
      bytes += 4 * static_cast<std::size_t>(slot.rows) * slot.cols;
  return bytes;
}

suite<"plan with an assistant"> plan_suite = [] {
  std::vector<Pair> pairs = fixture_pairs();
  pairs.push_back(pebble_pair());
  for (const Pair& pair : pairs) {
    test("nothing of the assistant of " + pair.name + " is linked without it") = [pair] {
      const link::Program alone = Loaded::load(pair.target, {});
      expect(!alone.assistant.has_value());
      int of_assistant = 0;
      for (std::size_t i = 0; i < alone.graph->weights.size(); ++i) {
        const bool bound = alone.matrices[i].values || alone.vectors[i] || alone.ids[i];
        const bool own = alone.graph->weights[i].owner == graph::Owner::target;
        expect(bound == own) << alone.graph->weights[i].name;
        of_assistant += !own;
      }
      expect(of_assistant > 30) << "the graph has an assistant";
      std::size_t counted = 0;  // those of towers will be copied when they are first used
      for (const graph::Owner owner : {graph::Owner::target, graph::Owner::vision, graph::Owner::audio}) counted += copied_bytes(*alone.graph, owner);
      expect(eq(alone.plan.constants_bytes, counted));
    };

    test("with the assistant of " + pair.name + " the plan grows by what it needs") = [pair] {
      const link::Program alone = Loaded::load(pair.target, {}), both = Loaded::load(pair.target, {}, pair.assistant);
      expect(both.graph == alone.graph && both.assistant.has_value());
      for (std::size_t i = 0; i < both.graph->weights.size(); ++i) {
        if (is_tower(both.graph->weights[i].owner) || both.graph->weights[i].owner == graph::Owner::dflash) continue;
        const auto kind = both.graph->weights[i].kind;
        const bool vector = kind == graph::WeightClass::vector, ids = kind == graph::WeightClass::ids;
        expect((both.vectors[i] != nullptr) == vector && (both.ids[i] != nullptr) == ids) << both.graph->weights[i].name;
        expect((both.matrices[i].values != nullptr) == !(vector || ids)) << both.graph->weights[i].name;
      }
      std::size_t mapped = 0, widened = 0;
      const Checkpoint assistant_files = Checkpoint::open(pair.assistant);
      for (const NamedTensor& entry : assistant_files.tensors()) {
        const std::vector<std::int64_t>& shape = entry.tensor.shape;
        if (shape.size() > 1) mapped += entry.tensor.bytes.size();
        else widened += 4 * static_cast<std::size_t>(shape.at(0));
      }
      expect(eq(both.plan.weights_mapped_bytes - alone.plan.weights_mapped_bytes, mapped));
      expect(eq(both.plan.constants_bytes - alone.plan.constants_bytes, widened));
      expect(eq(both.plan.kv_bytes, alone.plan.kv_bytes)) << "an assistant has no K/V";
      expect(eq(both.plan.output_region_bytes, alone.plan.output_region_bytes));
      expect(both.plan.arena_bytes >= alone.plan.arena_bytes);
      const auto draft = both.graph->segment(graph::SegmentId::draft).bytes(graph::Region::draft);
      expect(draft > 0 && both.plan.arena_bytes - both.plan.output_region_bytes >= static_cast<std::size_t>(draft));

      const std::size_t enough = alone.plan.anonymous_bytes();
      const link::Options limited{.memory_limit_bytes = enough};
      expect(outcome_of([&] { Loaded::load(pair.target, limited); }) == "ok");
      expect(outcome_of([&] { Loaded::load(pair.target, limited, pair.assistant); }) == "out_of_memory");
    };
  }

  "the arena has room for drafts of all that draft together in every graph, and no more than that for them"_test = [] {
    int larger = 0;
    for (const graph::Graph* graph : graph::compiled_graphs()) {
      if (!graph->assistant) continue;
      const std::size_t draft = graph->segment(graph::SegmentId::draft).bytes(graph::Region::draft) * link::kMaxDrafters;
      for (const std::int32_t chunk : {1, 256}) {
        const link::Options options{.context_tokens = 512, .chunk_rows = chunk};
        const link::MemoryPlan alone = link::plan_memory(*graph, 4096, {}, options);
        const link::MemoryPlan both = link::plan_memory(*graph, 4096, {.assistant = true}, options);
        const std::size_t room = both.arena_bytes - both.output_region_bytes;
        expect(room >= draft) << graph->name;
        expect(both.arena_bytes == alone.arena_bytes || room < draft + 4096) << graph->name;
        larger += both.arena_bytes > alone.arena_bytes;
      }
    }
    expect(larger > 0) << "some graph should need more for a draft than for its rows";
  };
};

}  // namespace
}  // namespace lapidary::test::assistant_test
