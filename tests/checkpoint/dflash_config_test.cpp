// config.json of a DFlash drafter -> DFlashShape: every spelling, what is refused, and which target it fits.
#include <boost/ut.hpp>

#include <map>

#include "checkpoint/pair.hpp"
#include "support/cases.hpp"

namespace lapidary::test::dflash_config_test {
namespace {

using namespace boost::ut;
using graph::DFlashShape;
using graph::LayerKind;

Config config_of(const std::string& path) { return parse_config(read_text_file(path), path); }
DFlashShape drafter_in(const std::string& folder) { return config_of(folder + "/config.json").dflash.value(); }

// "Sc Fb": sliding and causal, full and seen from both sides.
std::string layers_of(const DFlashShape& shape) {
  std::string text;
  for (const graph::DFlashLayer& layer : shape.each_layer())
    text += std::string(text.empty() ? "" : " ") + (layer.kind == LayerKind::sliding ? "S" : "F") + (layer.causal ? "c" : "b");
  return text;
}

std::vector<int> taps_of(const DFlashShape& shape) { return {shape.each_tap().begin(), shape.each_tap().end()}; }

using Keys = std::map<std::string, std::string>;  // key -> its JSON; "" leaves the key out

std::string json_of(const Keys& keys) {
  std::string json;
  for (const auto& [key, value] : keys)
    if (!value.empty()) json += (json.empty() ? "{\"" : ",\"") + key + "\":" + value;
  return (json.empty() ? "{" : json) + "}";
}

// As published for 26B-A4B, but small; `nested` changes what is in dflash_config.
std::string config_with(const Keys& changes, const Keys& nested_changes = {}) {
  Keys nested = {{"mask_token_id", "4"}, {"target_layer_ids", "[1, 6, 11]"}};
  for (const auto& [key, value] : nested_changes) nested[key] = value;
  Keys keys = {{"architectures", R"(["DFlashDraftModel"])"}, {"model_type", "\"qwen3\""}, {"vocab_size", "1000"},
               {"hidden_size", "64"}, {"intermediate_size", "96"}, {"num_hidden_layers", "2"}, {"num_attention_heads", "8"},
               {"num_key_value_heads", "4"}, {"head_dim", "16"}, {"layer_types", R"(["sliding_attention", "full_attention"])"},
               {"sliding_window", "32"}, {"use_sliding_window", "true"}, {"rope_theta", "1e6"}, {"rope_scaling", "null"},
               {"block_size", "16"}, {"num_target_layers", "12"}, {"dflash_config", json_of(nested)}};
  for (const auto& [key, value] : changes) keys[key] = value;
  return json_of(keys);
}

DFlashShape shape_with(const Keys& changes, const Keys& nested = {}) {
  return parse_config(config_with(changes, nested), "test").dflash.value();
}

// The kind of error, or its message where that does not name what it should.
std::string outcome_with(const Keys& changes, const Keys& nested, std::string_view mentions) {
  const auto error = error_of([&] { shape_with(changes, nested); });
  if (!error) return "ok";
  return error->message().find(mentions) != std::string::npos ? std::string(name_of(error->kind)) : error->message();
}

suite<"dflash config"> dflash_suite = [] {
  "every config case of the manifest, beside its target"_test = [] {
    const graph::Shape target = config_of(kFixtures + "/bad/checkpoints/ok-base/config.json").shape;
    const auto cases = cases_about("dflash-config", "dflash/manifest.json");
    expect(eq(cases.size(), 47_ul));
    for (const Case& bad : cases) {
      const auto error = error_of([&] {
        const Config config = config_of(bad.path);
        if (!config.dflash) fail(ErrorKind::unsupported, bad.path, "is no drafter");
        check_pair(target, *config.dflash, bad.path);
      });
      expect(is_expected(bad, error)) << bad.path << "expected" << bad.expect << (error ? error->message() : "");
    }
  };

  struct Good {
    std::string name;
    int block;
    std::string layers;
    int window;
    std::vector<int> taps;
    int heads, kv_heads, head_dim, mask;
    float softcap;
    double theta;
  };
  const Good fixtures[] = {
      {"dense-bf16", 16, "Sc Sc Fb", 20, {0, 1, 3}, 4, 2, 16, 3, 30, 1e6},
      {"moe-4bit", 8, "Sc Fb", 10, {0, 1}, 4, 1, 32, 3, 30, 1e6},
      {"moe-bf16", 8, "Sb Fb", 12, {0, 2}, 6, 2, 16, 244, 30, 1e4},
      {"ple-bf16", 16, "Fb Fb", 0, {1, 3, 5}, 8, 2, 16, 244, 0, 1e6},
      {"unified-bf16", 16, "Sc Sc Fc", 24, {0, 2, 3}, 4, 4, 16, 3, 30, 1e6},
  };
  for (const Good& good : fixtures)
    boost::ut::test("the drafter of " + good.name + " is read and fits its target") = [good] {
      const std::string folder = kFixtures + "/dflash/" + good.name;
      const DFlashShape shape = drafter_in(folder);
      expect(shape.block == good.block && shape.window == good.window && shape.mask_token == good.mask);
      expect(eq(layers_of(shape), good.layers));
      expect(taps_of(shape) == good.taps);
      expect(shape.heads == good.heads && shape.kv_heads == good.kv_heads && shape.head_dim == good.head_dim);
      expect(shape.softcap == good.softcap && shape.rope_theta == good.theta && shape.norm_epsilon == 1e-6f);
      expect(shape.vocab == 256 && shape.hidden == 128 && shape.max_positions == 4096);
      const graph::Shape target = config_of(kFixtures + "/models/" + good.name + "/config.json").shape;
      expect(outcome_of([&] { check_pair(target, shape, folder); }) == "ok");
      expect(config_of(folder + "/config.json").quantization.has_value() == good.name.ends_with("4bit"));
    };

  struct Published {
    std::string graph;
    int hidden, intermediate, heads, target_layers;
    std::vector<int> taps;
  };
  const Published published[] = {
      {"gemma-4-26b-a4b", 2816, 5632, 32, 30, {1, 6, 11, 17, 22, 27}},
      {"gemma-4-31b", 5376, 10752, 64, 60, {1, 12, 23, 35, 46, 57}},
      {"gemma-4-12b", 3840, 7680, 32, 48, {1, 10, 19, 27, 36, 45}},
  };
  for (const Published& one : published)
    boost::ut::test("the published drafter of " + one.graph) = [one] {
      simdjson::dom::parser parser;
      const simdjson::dom::element description = parser.load(kRoot + "/graphs/" + one.graph + ".json");
      const auto read = [&](const char* key) { return parse_config(std::string(simdjson::minify(description[key].value())), one.graph); };
      const DFlashShape shape = read("dflash").dflash.value();
      expect(shape.hidden == one.hidden && shape.intermediate == one.intermediate && shape.heads == one.heads);
      expect(shape.kv_heads == 8 && shape.head_dim == 128 && shape.vocab == 262144 && shape.target_layers == one.target_layers);
      expect(shape.window == 2048 && shape.block == 16 && shape.mask_token == 4 && shape.softcap == 30.0f && shape.rope_theta == 1e6);
      expect(eq(layers_of(shape), std::string("Sc Sc Sc Sc Fb")));
      expect(taps_of(shape) == one.taps);
      expect(outcome_of([&] { check_pair(read("config").shape, shape, one.graph); }) == "ok");
    };

  "keys of dflash_config may stand on top, and the nested one counts"_test = [] {
    const DFlashShape usual = shape_with({});
    expect(shape_with({{"block_size", ""}}, {{"block_size", "16"}}) == usual);
    expect(shape_with({{"block_size", "7"}}, {{"block_size", "16"}}) == usual);
    expect(shape_with({{"mask_token_id", "4"}, {"target_layer_ids", "[1, 6, 11]"}, {"dflash_config", ""}}) == usual);
    expect(shape_with({{"mask_token_id", "9"}, {"target_layer_ids", "[2]"}}) == usual);
    expect(shape_with({{"mask_token_id", "4"}}, {{"mask_token_id", "null"}}) == usual);
  };

  "the rotary base lies on top or in rope_parameters"_test = [] {
    const DFlashShape usual = shape_with({});
    expect(shape_with({{"rope_theta", ""}, {"rope_parameters", R"({"rope_theta": 1e6, "rope_type": "default"})"}}) == usual);
    expect(shape_with({{"rope_parameters", R"({"rope_theta": 5e5})"}}).rope_theta == 5e5);
    expect(shape_with({{"rope_parameters", R"({"rope_type": "default"})"}}) == usual);
    for (const char* other : {R"({"rope_type": "linear", "rope_theta": 1e6})", R"({"rope_theta": 1e6, "factor": 2})"})
      expect(outcome_with({{"rope_parameters", other}}, {}, "rope_parameters") == "unsupported") << other;
  };

  "who says whether a block is causal"_test = [] {
    expect(layers_of(shape_with({})) == "Sc Fb");
    expect(layers_of(shape_with({{"layer_types", ""}})) == "Fb Fb");
    for (const bool causal : {false, true}) {
      const std::string said = causal ? "true" : "false", other = causal ? "false" : "true", all = causal ? "Sc Fc" : "Sb Fb";
      expect(layers_of(shape_with({{"is_causal", said}})) == all);
      expect(layers_of(shape_with({}, {{"causal", said}})) == all);
      expect(layers_of(shape_with({{"is_causal", said}}, {{"causal", other}})) == all) << "is_causal comes first";
      expect(layers_of(shape_with({{"is_causal", "null"}}, {{"causal", said}})) == all);
    }
  };

  "a window is that of sliding layers, and no smaller than a block"_test = [] {
    expect(shape_with({{"layer_types", ""}}).window == 0 && shape_with({{"sliding_window", "16"}}).window == 16);
    expect(outcome_with({{"sliding_window", "15"}}, {}, "sliding_window") == "unsupported");
    expect(outcome_with({{"use_sliding_window", "false"}}, {}, "use_sliding_window") == "unsupported");
    expect(outcome_with({{"use_sliding_window", "false"}, {"layer_types", ""}}, {}, "") == "ok");
  };

  "heads need not be as wide as the stream, and their size follows from it where it is not said"_test = [] {
    expect(shape_with({{"head_dim", "32"}}).head_dim == 32);
    expect(shape_with({{"head_dim", ""}}).head_dim == 8);
    expect(outcome_with({{"head_dim", ""}, {"hidden_size", "72"}}, {}, "head_dim") == "missing_key");
    expect(outcome_with({{"head_dim", "12"}}, {}, "head_dim") == "bad_value");
  };

  "what would change the maths is refused unless it says that it does not"_test = [] {
    const DFlashShape usual = shape_with({});
    for (const char* key : {"input_embedding_scale", "output_multiplier"}) {
      for (const char* neutral : {"null", "1", "1.0"}) expect(shape_with({}, {{key, neutral}}) == usual) << key << neutral;
      for (const char* other : {"0", "2.5", "\"1\"", "true"}) expect(outcome_with({}, {{key, other}}, key) == "unsupported") << key << other;
    }
    for (const char* key : {"sample_from_anchor", "use_swa", "swa_window_size", "attention_sink_bias", "conv_kernel_size", "selector_rank"}) {
      for (const char* neutral : {"null", "false", "0"}) expect(shape_with({}, {{key, neutral}}) == usual) << key << neutral;
      for (const char* other : {"true", "4", "\"false\"", "[]"}) expect(outcome_with({}, {{key, other}}, key) == "unsupported") << key << other;
      expect(outcome_with({{key, "2"}}, {}, key) == "unsupported") << key << "on top";
    }
    expect(outcome_with({{"mlp_bias", "true"}}, {}, "mlp_bias") == "unsupported");
  };

  "relatives are refused by their names"_test = [] {
    for (const char* name : {"DFlash2DraftModel", "Gemma4DSparkModel", "Qwen3DSparkModel", "DFlashModel"})
      expect(outcome_with({{"architectures", "[\"" + std::string(name) + "\"]"}}, {}, name) == "unsupported") << name;
    expect(outcome_with({{"speculators_model_type", "\"dflash\""}}, {}, "speculators_model_type") == "unsupported");
    expect(outcome_with({{"model_type", "\"llama\""}}, {}, "model_type") == "unsupported");
    expect(outcome_with({{"architectures", R"(["Qwen3ForCausalLM"])"}}, {}, "architectures") == "unsupported");
    expect(outcome_with({{"architectures", ""}}, {}, "DFlashDraftModel") == "unsupported");
  };

  "limits"_test = [] {
    std::string taps = "[0";
    for (int i = 1; i < graph::kMaxTaps; ++i) taps += ", " + std::to_string(i);
    expect(shape_with({{"num_target_layers", "40"}}, {{"target_layer_ids", taps + "]"}}).tap_count == graph::kMaxTaps);
    expect(outcome_with({{"num_target_layers", "40"}}, {{"target_layer_ids", taps + ", 39]"}}, "target_layer_ids") == "bad_value");
    for (const char* other : {"[1.5]", "[null]", "[[1]]", "[\"1\"]"})
      expect(outcome_with({}, {{"target_layer_ids", other}}, "target_layer_ids") == "wrong_type") << other;
    expect(outcome_with({}, {{"target_layer_ids", "[12]"}}, "target_layer_ids") == "bad_value");
    expect(outcome_with({{"num_target_layers", ""}}, {}, "num_target_layers") == "missing_key");
    expect(outcome_with({{"num_hidden_layers", "17"}, {"layer_types", ""}}, {}, "num_hidden_layers") == "bad_value");
    expect(shape_with({{"max_position_embeddings", ""}}).max_positions == 0);
  };

  "a drafter needs a target with its vocabulary, width and depth"_test = [] {
    const DFlashShape shape = drafter_in(kFixtures + "/dflash/dense-bf16");
    const graph::Shape target = config_of(kFixtures + "/models/dense-bf16/config.json").shape;
    const auto refused = [&](std::int32_t graph::Shape::* number, const char* key) {
      graph::Shape other = target;
      ++(other.*number);
      const auto error = error_of([&] { check_pair(other, shape, "the drafter"); });
      expect(fatal(error.has_value()));
      expect(error->kind == ErrorKind::shape_mismatch);
      for (const std::string& word : {std::string("[the drafter]"), std::string(key), std::to_string(target.*number), std::to_string(other.*number)})
        expect(error->message().find(word) != std::string::npos) << error->message();
    };
    refused(&graph::Shape::vocab, "vocab_size");
    refused(&graph::Shape::hidden, "hidden_size");
    refused(&graph::Shape::layer_count, "num_target_layers");
  };
};

}  // namespace
}  // namespace lapidary::test::dflash_config_test
