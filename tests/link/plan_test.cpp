// The memory plan, and what a program says of itself.
#include <boost/ut.hpp>

#include <fstream>
#include <sstream>

#include "cpu/attention_bf16.hpp"
#include "cpu/maxima.hpp"
#include "cpu/q8_steps.hpp"
#include "cpu/tower.hpp"
#include "support/cases.hpp"
#include "support/model.hpp"

namespace lapidary::test::plan_test {
namespace {

using namespace boost::ut;

const graph::Graph& graph_named(std::string_view name) {
  for (const graph::Graph* graph : graph::compiled_graphs())
    if (graph->name == name) return *graph;
  throw std::runtime_error("no graph " + std::string(name));
}

const suite<"memory plan"> plans = [] {
  "a ring holds the window and a chunk in whole tiles, a full layer the context"_test = [] {
    const graph::Graph& e2b = graph_named("gemma-4-e2b");
    const link::MemoryPlan plan = link::plan_memory(e2b, 131072, {}, {.context_tokens = 5000});
    expect(plan.kv[0].capacity == 768);      // 512 + 256
    expect(plan.kv[4].capacity == 5056);     // 5000 in tiles of 64
    expect(plan.kv[15].capacity == 0);       // shares layer 13
    // float32: 12 sliding layers of 256, 3 full ones of 512, K and V
    const std::size_t expected = (12u * 768 * 256 + 3u * 5056 * 512) * 2 * sizeof(float);
    const std::size_t carried = 1536 * sizeof(float);  // the hidden row that a draft begins with
    expect(plan.kv_bytes >= expected + carried && plan.kv_bytes < expected + carried + 4096);
    expect(plan.kv_bytes_per_token == 3u * 512 * 2 * sizeof(float));
  };

  "K/V of a position take what their format says, and the format follows from the numeric mode"_test = [] {
    const graph::Graph& e2b = graph_named("gemma-4-e2b");
    for (const auto& [numeric, name, bytes] : {std::tuple{link::Numeric::exact, "f32", 4u}, {link::Numeric::fast, "bf16", 2u}}) {
      const link::MemoryPlan plan = link::plan_memory(e2b, 131072, {}, {.context_tokens = 5000, .numeric = numeric});
      expect(plan.kv_format.name == name);
      expect(plan.kv[4].stores.key_bytes() == 512 * bytes && plan.kv[4].stores.value_bytes() == 512 * bytes);
      expect(plan.kv_bytes_per_token == 3u * 512 * 2 * bytes);
      expect(plan.kv[0].v_offset_bytes - plan.kv[0].k_offset_bytes == 768 * 256 * bytes);
    }
  };

  "codes take what the specification says, in layers that keep every position"_test = [] {
    using Bytes = std::array<std::size_t, 3>;  // bf16, q8, q4, of all full layers
    for (const auto& [name, bytes] : {std::pair{"gemma-4-e2b", Bytes{6144, 3096, 2328}}, {"gemma-4-e4b", Bytes{16384, 8256, 6208}},
                                      {"gemma-4-12b", Bytes{16384, 5184, 3136}}, {"gemma-4-26b-a4b", Bytes{20480, 6480, 3920}},
                                      {"gemma-4-31b", Bytes{81920, 25920, 15680}}}) {
      const graph::Graph& graph = graph_named(name);
      const link::KvFormat* const formats[] = {&link::kKvBf16, &link::kKvQ8, &link::kKvQ4};
      for (std::size_t i = 0; i < 3; ++i) {
        const link::MemoryPlan plan = link::plan_memory(graph, 262144, {}, {.context_tokens = 8192, .numeric = link::Numeric::fast, .kv = formats[i]});
        expect(plan.kv_bytes_per_token == bytes[i] && plan.kv_full_bytes == 8192 * bytes[i]) << name << formats[i]->name << plan.kv_bytes_per_token;
        for (int l = 0; l < graph.shape.layer_count; ++l) {
          const link::KvPlacement& kv = plan.kv[static_cast<std::size_t>(l)];
          const bool full = graph.shape.layers[l].kind == graph::LayerKind::full;
          if (kv.capacity) expect(kv.stores.coded() == (full && i > 0) && kv.stores.one == (full && i > 0 && graph.shape.layers[l].values_are_keys));
        }
      }
    }
  };

  // | gemma-4-26b-a4b | 32768 | 671 | 212 | 128 | 262 |
  "the table of docs/long-context.md is the plan's"_test = [] {
    int rows = 0;
    std::ifstream doc(kRoot + "/docs/long-context.md");
    for (std::string line; std::getline(doc, line);) {
      if (!line.starts_with("| gemma-4-")) continue;
      ++rows;
      std::istringstream words(line);
      std::string bar, name;
      std::int32_t context = 0;
      words >> bar >> name >> bar >> context;
      const auto rounded = [](std::size_t bytes) { return static_cast<std::int64_t>((bytes + 500'000) / 1'000'000); };
      std::int64_t windows = 0;
      for (const link::KvFormat* format : {&link::kKvBf16, &link::kKvQ8, &link::kKvQ4}) {
        const link::MemoryPlan plan = link::plan_memory(graph_named(name), 262144, {}, {.context_tokens = context, .numeric = link::Numeric::fast, .kv = format});
        std::int64_t megabytes = 0;
        words >> bar >> megabytes;
        expect(megabytes == rounded(plan.kv_full_bytes)) << line << format->name << plan.kv_full_bytes;
        windows = rounded(plan.carry_offset_bytes - plan.kv_full_bytes);
      }
      std::int64_t megabytes = 0;
      words >> bar >> megabytes;
      expect(megabytes == windows) << line << windows;
    }
    expect(rows == 18_i);
  };

  "kinds of K/V that a mode or a model cannot have are refused"_test = [] {
    const std::string pebble = kRoot + "/models/pebble";
    const auto refusal = [&](link::Numeric numeric, const link::KvFormat* kv) {
      const auto error = error_of([&] { Loaded::load(pebble, {.numeric = numeric, .kv = kv}); });
      return error ? error->message() : "";
    };
    expect(refusal(link::Numeric::exact, &link::kKvBf16) == "[--kv] K/V in the exact mode, expected f32, q8 or q4, got bf16");
    expect(refusal(link::Numeric::fast, &link::kKvF32) == "[--kv] K/V in the fast mode, expected bf16, q8 or q4, got f32");
    expect(refusal(link::Numeric::exact, &link::kKvF32).empty() && refusal(link::Numeric::fast, &link::kKvBf16).empty());
    graph::Graph odd = graph_named("pebble");
    for (graph::LayerShape& layer : odd.shape.layers)
      if (layer.kind == graph::LayerKind::full) layer.head_dim = 96;
    const auto error = error_of([&] { link::plan_memory(odd, 8192, {}, {.kv = &link::kKvQ8}); });
    expect(error && error->message() == "[--kv] head size for q8, expected a power of two from 8 to 2048, got 96");
  };

  "a format widens a head to float32"_test = [] {
    const float numbers[] = {1.0f, -2.5f, 0.0f};
    const std::uint16_t upper[] = {0x3f80, 0xc020, 0x0000};
    float out[3];
    link::widen(link::KvCode::f32, std::as_bytes(std::span(numbers)).data(), 0, out);
    expect(std::ranges::equal(out, numbers));
    link::widen(link::KvCode::bf16, std::as_bytes(std::span(upper)).data(), 0, out);
    expect(std::ranges::equal(out, numbers));
  };

  "a small chunk still leaves room for two rounds"_test = [] {
    const link::MemoryPlan plan = link::plan_memory(graph_named("gemma-4-e2b"), 131072, {}, {.chunk_rows = 1});
    expect(plan.kv[0].capacity == 576);  // 512 + 2 * 8, in tiles
  };

  "a chunk has room for the largest image where a model looks ahead in those, and rings for the chunk"_test = [] {
    const auto plan_of = [](const char* name, const link::Options& options) {
      return link::plan_memory(graph_named(name), 131072, {}, options);
    };
    const link::MemoryPlan large = plan_of("gemma-4-12b", {.image_tokens = 1120});
    expect(eq(large.chunk_rows, 1120) && eq(large.kv[0].capacity, 2176));  // 1024 + 1120, in tiles
    expect(eq(plan_of("gemma-4-12b", {.image_tokens = 280}).chunk_rows, 512));
    expect(eq(plan_of("gemma-4-12b", {.chunk_rows = 64, .image_tokens = 1120}).chunk_rows, 64));
    expect(eq(plan_of("gemma-4-e2b", {.image_tokens = 1120}).chunk_rows, 256));
    expect(outcome_of([&] { plan_of("gemma-4-12b", {.chunk_rows = 1121, .image_tokens = 1120}); }) == "usage");
  };

  "a ring is never longer than the context"_test = [] {
    const link::MemoryPlan plan = link::plan_memory(graph_named("gemma-4-e2b"), 131072, {}, {.context_tokens = 100});
    expect(plan.kv[0].capacity == 128 && plan.kv[4].capacity == 128);
  };

  "a plan above the limit is refused before anything is allocated"_test = [] {
    const std::string pebble = kRoot + "/models/pebble";
    const std::size_t needed = Loaded::load(pebble, {}).plan.anonymous_bytes();
    expect(outcome_of([&] { Loaded::load(pebble, {.memory_limit_bytes = needed}); }) == "ok");
    const auto error = error_of([&] { Loaded::load(pebble, {.memory_limit_bytes = needed - 1}); });
    expect(fatal(error.has_value()));
    expect(error->kind == ErrorKind::out_of_memory);
    expect(error->message().find(std::to_string(needed)) != std::string::npos) << error->message();
  };

  "what the executor needs besides is in the plan: rows of maxima, and for bfloat16 K/V a place for attention"_test = [] {
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast}) {
      const link::Program program = Loaded::load(kRoot + "/models/pebble", {.threads = 2, .numeric = numeric});
      const std::size_t threads = 2 * cpu::q8_room_size(program).bytes(),
                        towers = cpu::tower_room_bytes(program, cpu::best_instructions()), more = program.plan.room_bytes - threads - towers;
      const std::size_t attention = numeric == link::Numeric::fast ? sizeof(cpu::AttentionRoom) : 0;
      expect((threads > 0) == (numeric == link::Numeric::fast));
      expect(more == attention + program.plan.verify_rows * cpu::kMaxStretches * sizeof(float)) << more;
    }
  };

  "context and chunk outside the model's limits are refused"_test = [] {
    const std::string pebble = kRoot + "/models/pebble";
    expect(outcome_of([&] { Loaded::load(pebble, {.context_tokens = 8193}); }) == "usage");
    expect(outcome_of([&] { Loaded::load(pebble, {.chunk_rows = 257}); }) == "usage");
    expect(outcome_of([&] { Loaded::load(pebble, {.context_tokens = 8192, .chunk_rows = 256}); }) == "ok");
  };

  "mapped weights are counted to the byte"_test = [] {
    const link::Program program = Loaded::load(kRoot + "/models/pebble", {});
    std::size_t matrices = 0;
    const Checkpoint files = Checkpoint::open(kRoot + "/models/pebble");
    for (const NamedTensor& tensor : files.tensors())
      if (tensor.tensor.shape.size() > 1 && tensor.name.starts_with("language_model.")) matrices += tensor.tensor.bytes.size();
    expect(program.plan.weights_mapped_bytes == matrices);
  };

  "weights stay where they are mapped, aligned or not"_test = [] {
    int unaligned = 0;
    for (const char* name : {"moe-mixed", "ple-4bit", "dense-4bit", "dense-nvfp4"}) {
      const link::Program program = Loaded::load(kFixtures + "/models/" + name, {});
      const auto inside = [&](const std::byte* at) {
        for (const std::span<const std::byte> bytes : program.target.mappings) {
          if (at >= bytes.data() && at < bytes.data() + bytes.size()) return true;
        }
        return false;
      };
      for (const link::Matrix& matrix : program.matrices) {
        if (!matrix.values) continue;
        expect(inside(matrix.values));
        expect(!matrix.scales || inside(matrix.scales));
        unaligned += reinterpret_cast<std::uintptr_t>(matrix.values) % 4 != 0;
      }
    }
    expect(unaligned > 0) << "the fixtures should have tensors at odd addresses";
  };

  "a step's variant names its storage"_test = [] {
    const link::Program program = Loaded::load(kFixtures + "/models/moe-mixed", {});
    std::string variants;
    for (const graph::Step& step : program.graph->segment(graph::SegmentId::forward).steps)
      variants += link::variant_of(program, step) + "\n";
    for (const char* variant : {"linear_f32 affine8/64", "linear_f32 bf16", "linear_gelu_mul_f32 affine4/32 affine2/128",
                                "expert_linear_f32 affine6/64", "attention_f32"})
      expect(variants.find(variant) != std::string::npos) << variant;
  };

  "in the fast mode of the CPU products of integers times a scale are others than those of numbers"_test = [] {
    std::string variants;
    for (const char* name : {"moe-mixed", "moe-mxfp4", "dense-nvfp4", "ple-mxfp8"}) {
      const link::Program program =
          Loaded::load(kFixtures + "/models/" + name, {.numeric = link::Numeric::fast});
      for (const graph::Step& step : program.graph->segment(graph::SegmentId::forward).steps)
        variants += link::variant_of(program, step) + "\n";
    }
    for (const char* variant : {"linear_q8 affine8/64", "linear_f32 bf16", "linear_gelu_mul_q8 affine4/32 affine2/128",
                                "expert_linear_q8 affine6/64", "expert_linear_q8 mxfp4/32", "linear_q8 nvfp4/16", "linear_f32 mxfp8/32"})
      expect(variants.find(variant) != std::string::npos) << variant;
  };
};

}  // namespace
}  // namespace lapidary::test::plan_test
