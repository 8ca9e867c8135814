// config.json -> Shape: both generations of configs, missing keys, limits, assistants.
#include <boost/ut.hpp>

#include <map>

#include "support/cases.hpp"

namespace lapidary::test::config_test {
namespace {

using namespace boost::ut;
using graph::LayerKind;
using graph::Shape;

Config config_of(const std::string& path) { return parse_config(read_text_file(path), path); }
Shape shape_of_model(const std::string& name) { return config_of(kFixtures + "/models/" + name + "/config.json").shape; }

using Keys = std::map<std::string, std::string>;  // key -> its JSON; "" leaves the key out

std::string json_of(const Keys& keys) {
  std::string json;
  for (const auto& [key, value] : keys) {
    if (!value.empty()) json += (json.empty() ? "{\"" : ",\"") + key + "\":" + value;
  }
  return json + "}";
}

// A text-only model of 12 layers; the rule for missing layer_types makes layers 5 and 11 full.
Keys text_keys(const Keys& changes = {}) {
  Keys keys = {{"model_type", "\"gemma4_text\""},
               {"vocab_size", "1000"},
               {"hidden_size", "64"},
               {"intermediate_size", "96"},
               {"num_hidden_layers", "12"},
               {"num_attention_heads", "8"},
               {"num_key_value_heads", "4"},
               {"head_dim", "16"},
               {"global_head_dim", "32"},
               {"sliding_window", "10"},
               {"max_position_embeddings", "4096"}};
  for (const auto& [key, value] : changes) keys[key] = value;
  return keys;
}

std::string nested_json(const Keys& text_changes) {
  return json_of({{"model_type", "\"gemma4\""}, {"text_config", json_of(text_keys(text_changes))}});
}

Shape shape_with(const Keys& changes) { return parse_config(json_of(text_keys(changes)), "test").shape; }

// The kind of error, and whether its message names what the test says.
std::string outcome_with(const Keys& changes, std::string_view mentions) {
  const auto error = error_of([&] { shape_with(changes); });
  if (!error) return "ok";
  const bool says_where = error->message().find(mentions) != std::string::npos;
  return says_where ? std::string(name_of(error->kind)) : error->message();
}

std::vector<int> full_layers(const Shape& shape) {
  std::vector<int> layers;
  for (int i = 0; i < shape.layer_count; ++i) {
    if (shape.layers[i].kind == LayerKind::full) layers.push_back(i);
  }
  return layers;
}

Keys assistant_keys(const Keys& changes = {}, const Keys& text_changes = {}) {
  Keys keys = {{"model_type", "\"gemma4_assistant\""},
               {"backbone_hidden_size", "256"},
               {"text_config", json_of(text_keys(text_changes))}};
  for (const auto& [key, value] : changes) keys[key] = value;
  return keys;
}

suite<"config"> config_suite = [] {
  "every config case of the manifest"_test = [] {
    const auto cases = cases_about("config");
    expect(cases.size() >= 38_ul);
    for (const Case& bad : cases) {
      const auto error = error_of([&] { config_of(bad.path); });
      expect(is_expected(bad, error)) << bad.path << "expected" << bad.expect << (error ? error->message() : "ok") << "\n";
    }
  };

  "the newer generation, the flat spelling and the text-only export give one Shape"_test = [] {
    expect(shape_of_model("unified-bf16") == shape_of_model("unified-4bit"));
    expect(shape_of_model("dense-bf16") == shape_of_model("dense-nvfp4"));
    const std::string per_layer =
        R"({"5":{"head_dim":32,"num_key_value_heads":2},"11":{"num_key_value_heads":2,"head_dim":32}})";
    expect(shape_with({{"attention_k_eq_v", "true"}, {"global_head_dim", ""}, {"per_layer_config", per_layer}}) ==
           shape_with({{"attention_k_eq_v", "true"}, {"num_global_key_value_heads", "2"}}));
  };

  "a small model with shared K/V, double-wide MLP and per-layer embeddings"_test = [] {
    const Shape shape = shape_of_model("ple-bf16");
    expect(shape.vocab == 256_i && shape.hidden == 128_i && shape.heads == 4_i && shape.window == 12_i);
    expect(shape.ple_width == 64_i && shape.ple_vocab == 256_i && shape.max_positions == 4096_i);
    expect(shape.experts == 0_i && !shape.bidirectional_images && shape.softcap == 30.0_f);
    expect(full_layers(shape) == std::vector{2, 5});
    const int owners[] = {0, 1, 2, 1, 1, 2};
    for (int i = 0; i < 6; ++i) {
      const auto& layer = shape.layers[i];
      expect(layer.kv_layer == owners[i]) << i;
      expect(layer.intermediate == (i < 3 ? 64 : 128)) << i;
      expect(layer.head_dim == (layer.kind == LayerKind::full ? 64 : 32)) << i;
      expect(layer.kv_heads == 1_i && !layer.values_are_keys);
    }
    expect(shape.rope[0] == graph::Rope{1e4, 1.0, 1.0} && shape.rope[1] == graph::Rope{1e6, 0.25, 1.0});
  };

  "a small model with experts and keys as values"_test = [] {
    const Shape shape = shape_of_model("moe-bf16");
    expect(shape.experts == 8_i && shape.experts_used == 3_i && shape.expert_width == 64_i);
    expect(shape.bidirectional_images);
    expect(full_layers(shape) == std::vector{2});
    expect(!shape.layers[0].values_are_keys && shape.layers[0].kv_heads == 2_i);
    expect(shape.layers[2].values_are_keys && shape.layers[2].kv_heads == 1_i && shape.layers[2].kv_layer == 2_i);
  };

  "missing keys"_test = [] {
    const Shape shape = shape_with({{"global_head_dim", ""}, {"num_global_key_value_heads", "2"}});
    expect(full_layers(shape) == std::vector{5, 11});
    expect(shape.layers[5].head_dim == 512_i && shape.layers[4].head_dim == 16_i);
    expect(shape.layers[5].kv_heads == 4_i) << "num_global_key_value_heads counts only with attention_k_eq_v";
    expect(shape.rope[0] == graph::Rope{1e4, 1.0, 1.0} && shape.rope[1] == graph::Rope{1e6, 0.25, 1.0});
    expect(shape.softcap == 0.0_f && shape.norm_epsilon == 1e-6f && shape.ple_width == 0_i && shape.experts == 0_i);
    for (const Keys& absent : {Keys{{"rope_parameters", "null"}}, {{"layer_types", "null"}}, {{"per_layer_config", "null"}},
                               {{"num_kv_shared_layers", "null"}}, {{"final_logit_softcapping", "0"}},
                               {{"hidden_size_per_layer_input", "0"}}, {{"num_experts", "7"}}}) {
      expect(shape_with(absent) == shape_with({})) << absent.begin()->first;
    }
    for (const char* key : {"num_key_value_heads", "head_dim", "sliding_window", "max_position_embeddings"}) {
      expect(outcome_with({{key, ""}}, key) == "missing_key") << key;
    }
    expect(outcome_with({{"hidden_size", "null"}}, "hidden_size") == "wrong_type");
  };

  "the last layer is full whatever the file says"_test = [] {
    const std::string sliding = "\"sliding_attention\"";
    expect(full_layers(shape_with({{"num_hidden_layers", "3"}})) == std::vector{2});
    const Keys types = {{"num_hidden_layers", "2"}, {"layer_types", "[" + sliding + "," + sliding + "]"}};
    expect(full_layers(shape_with(types)) == std::vector{1});
  };

  "shared layers read the last own layer of their kind"_test = [] {
    const Shape shape = shape_with({{"num_kv_shared_layers", "6"}, {"attention_k_eq_v", "true"}});
    expect(shape.layers[4].kv_layer == 4_i && shape.layers[6].kv_layer == 4_i && shape.layers[11].kv_layer == 5_i);
    expect(shape.layers[5].values_are_keys && !shape.layers[11].values_are_keys);
    expect(outcome_with({{"num_kv_shared_layers", "13"}}, "num_kv_shared_layers") == "bad_value");
    expect(outcome_with({{"num_kv_shared_layers", "7"}}, "num_kv_shared_layers") == "bad_value") << "no full layer left";
    const Keys other_size = {{"num_kv_shared_layers", "6"}, {"per_layer_config", R"({"11":{"head_dim":64}})"}};
    expect(outcome_with(other_size, "num_kv_shared_layers") == "bad_value");
    const Keys wide = {{"use_double_wide_mlp", "true"}};
    expect(shape_with(wide) == shape_with({})) << "double width is for shared layers only";
  };

  "per_layer_config names layers"_test = [] {
    const auto outcome = [](const std::string& json) { return outcome_with({{"per_layer_config", json}}, "per_layer_config"); };
    expect(outcome(R"({"3":{"head_dim":24}})") == "ok");
    expect(outcome(R"({"3":{"head_dim":18}})") == "bad_value");
    expect(outcome(R"({"12":{}})") == "bad_value");
    expect(outcome(R"({"-1":{}})") == "bad_value");
    expect(outcome(R"({"3x":{}})") == "bad_value");
    expect(outcome(R"({"":{}})") == "bad_value");
    expect(outcome(R"({"3":{},"3":{}})") == "bad_value");
    expect(outcome(R"({"3":{},"03":{}})") == "bad_value");
    expect(outcome(R"({"3":7})") == "wrong_type");
    expect(outcome(R"({"3":{"head_dim":17}})") == "bad_value");
    expect(outcome(R"({"3":{"intermediate_size":64}})") == "unsupported");
    expect(outcome_with({{"per_layer_config", R"({"3":{"num_key_value_heads":3}})"}}, "num_attention_heads") == "bad_value");
    const Shape only_five = shape_with({{"global_head_dim", ""}, {"per_layer_config", R"({"5":{"head_dim":64}})"}});
    expect(only_five.layers[5].head_dim == 64_i);
    expect(only_five.layers[11].head_dim == 16_i) << "no default of 512 beside the map";
  };

  "rope_parameters"_test = [] {
    const auto rope = [](const std::string& json) { return shape_with({{"rope_parameters", json}}).rope[1]; };
    expect(rope(R"({})") == graph::Rope{1e6, 0.25, 1.0});
    expect(rope(R"({"full_attention":{"rope_type":"default","rope_theta":5e5}})") == graph::Rope{5e5, 1.0, 1.0});
    expect(rope(R"({"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.5,"factor":8}})") ==
           graph::Rope{1e6, 0.5, 8.0});
    const auto outcome = [](const std::string& json) { return outcome_with({{"rope_parameters", json}}, "rope_parameters"); };
    expect(outcome(R"({"rope_theta":10000})") == "unsupported") << "a spelling that would be ignored silently";
    expect(outcome(R"({"full_attention":{"rope_type":"default","factor":8}})") == "unsupported");
    expect(outcome(R"({"full_attention":{"rope_type":"default","partial_rotary_factor":0.5}})") == "unsupported");
    expect(outcome(R"({"full_attention":{"partial_rotary_factor":1.5}})") == "bad_value");
    expect(outcome(R"({"full_attention":{"rope_theta":-1}})") == "bad_value");
    expect(outcome(R"({"full_attention":{"rope_theta":"1"}})") == "wrong_type");
    expect(outcome(R"({"full_attention":[]})") == "wrong_type");
  };

  "experts and per-layer embeddings need all their keys"_test = [] {
    const Keys experts = {
        {"enable_moe_block", "true"}, {"num_experts", "8"}, {"top_k_experts", "2"}, {"moe_intermediate_size", "32"}};
    expect(shape_with(experts).experts_used == 2_i);
    for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
      Keys without = experts;
      without[key] = "";
      expect(outcome_with(without, key) == "missing_key") << key;
    }
    expect(outcome_with({{"hidden_size_per_layer_input", "16"}}, "vocab_size_per_layer_input") == "missing_key");
    const Keys too_few = {{"hidden_size_per_layer_input", "16"}, {"vocab_size_per_layer_input", "999"}};
    expect(outcome_with(too_few, "vocab_size_per_layer_input") == "bad_value") << "every token needs a row";
  };

  "what other models do differently is refused"_test = [] {
    expect(outcome_with({{"attention_bias", "true"}}, "attention_bias") == "unsupported");
    expect(outcome_with({{"tie_word_embeddings", "false"}}, "tie_word_embeddings") == "unsupported");
    expect(outcome_with({{"final_logit_softcapping", "-1"}}, "final_logit_softcapping") == "bad_value");
    expect(outcome_with({{"rms_norm_eps", "0"}}, "rms_norm_eps") == "bad_value");
    expect(outcome_with({{"layer_types", "[1]"}, {"num_hidden_layers", "1"}}, "layer_types") == "unsupported");
    expect(outcome_with({{"use_bidirectional_attention", "true"}}, "use_bidirectional_attention") == "wrong_type");
    const std::string other = nested_json({{"model_type", "\"gemma3_text\""}});
    expect(outcome_of([&] { parse_config(other, "test"); }) == "unsupported");
  };

  "a key given twice is refused"_test = [] {
    const auto error = error_of([] { parse_config(R"({"model_type":"gemma4","model_type":"gemma4_text"})", "test"); });
    expect(fatal(error.has_value()));
    expect(error->kind == ErrorKind::bad_value && error->message().find("model_type") != std::string::npos);
  };

  "errors say where, what, expected and got"_test = [] {
    const auto error = error_of([] { parse_config(nested_json({{"hidden_size", "65537"}}), "folder/config.json"); });
    expect(fatal(error.has_value()));
    expect(error->message() ==
           "[folder/config.json] text_config.hidden_size, expected a whole number from 1 to 65536, got 65537")
        << error->message();
  };
};

suite<"assistant config"> assistant_suite = [] {
  "with a centroid head"_test = [] {
    const Config config = config_of(kFixtures + "/assistants/ple-8bit/config.json");
    expect(fatal(config.assistant.has_value()));
    expect(config.model_type == "gemma4_assistant" && config.assistant->text == config.shape);
    expect(config.assistant->target_hidden == 128_i);
    expect(config.assistant->centroids == 32_i && config.assistant->centroids_used == 8_i);
    expect(config.shape.layer_count == 4_i && config.shape.hidden == 64_i && config.shape.softcap == 0.0_f);
    for (const auto& layer : config.shape.each_layer()) expect(layer.kv_layer == -1_i && layer.intermediate == 128_i);
    expect(config.quantization->overrides.at("masked_embedding.centroids") == std::nullopt);
  };

  "with a dense head, for a unified model"_test = [] {
    const Config config = config_of(kFixtures + "/assistants/unified-bf16/config.json");
    expect(fatal(config.assistant.has_value()));
    expect(config.model_type == "gemma4_unified_assistant" && config.assistant->centroids == 0_i);
    expect(config.shape.layers[3].kv_heads == 1_i && !config.shape.bidirectional_images && !config.quantization);
  };

  "0, all and missing shared layers mean the same"_test = [] {
    const auto shape = [](const Keys& changes) { return parse_config(json_of(assistant_keys({}, changes)), "test").shape; };
    expect(shape({}) == shape({{"num_kv_shared_layers", "0"}}));
    expect(shape({}) == shape({{"num_kv_shared_layers", "12"}}));
    expect(shape({}) == shape({{"use_bidirectional_attention", "\"vision\""}}));
  };

  "what no assistant has is refused"_test = [] {
    const auto outcome = [](const Keys& changes, const Keys& text = {}) {
      return outcome_of([&] { parse_config(json_of(assistant_keys(changes, text)), "test"); });
    };
    expect(outcome({}) == "ok");
    expect(outcome({{"backbone_hidden_size", ""}}) == "missing_key");
    expect(outcome({{"text_config", ""}}) == "missing_key");
    expect(outcome({}, {{"num_kv_shared_layers", "6"}}) == "unsupported");
    expect(outcome({}, {{"use_double_wide_mlp", "true"}}) == "unsupported");
    expect(outcome({}, {{"enable_moe_block", "true"}}) == "unsupported");
    expect(outcome({}, {{"hidden_size_per_layer_input", "8"}, {"vocab_size_per_layer_input", "1000"}}) == "unsupported");
    const Keys ordered = {{"use_ordered_embeddings", "true"}, {"num_centroids", "100"}, {"centroid_intermediate_top_k", "10"}};
    const auto with = [&](std::string key, std::string value) {
      Keys keys = ordered;
      keys[key] = value;
      return outcome(keys);
    };
    expect(outcome(ordered) == "ok");
    expect(with("num_centroids", "") == "missing_key");
    expect(with("num_centroids", "300") == "bad_value") << "1000 tokens in 300 clusters";
    expect(with("centroid_intermediate_top_k", "101") == "bad_value");
  };
};

// The published models, by what follows from their configs.
struct Published {
  const char* graph;
  int hidden, layers, first_full, heads, window, positions;
  int sliding_k_rows, full_k_rows, full_v_rows;  // 0 = no v_proj
  int shared_source[2];                          // layer that sliding and full layers at the end read; -1 = their own
  int own_kv_layers[2];
  int last_intermediate, experts, ple_width;
  int assistant_hidden, assistant_heads, centroids;
};
constexpr Published kPublished[] = {
    {"gemma-4-e2b", 1536, 35, 4, 8, 512, 131072, 256, 512, 512, {13, 14}, {12, 3}, 12288, 0, 256, 256, 4, 2048},
    {"gemma-4-e4b", 2560, 42, 5, 8, 512, 131072, 512, 1024, 1024, {22, 23}, {20, 4}, 10240, 0, 256, 256, 4, 2048},
    {"gemma-4-12b", 3840, 48, 5, 16, 1024, 262144, 2048, 512, 0, {-1, -1}, {40, 8}, 15360, 0, 0, 1024, 16, 0},
    {"gemma-4-26b-a4b", 2816, 30, 5, 16, 1024, 262144, 2048, 1024, 0, {-1, -1}, {25, 5}, 2112, 128, 0, 1024, 16, 0},
    {"gemma-4-31b", 5376, 60, 5, 32, 1024, 262144, 4096, 2048, 0, {-1, -1}, {50, 10}, 21504, 0, 0, 1024, 32, 0},
};

suite<"published configs"> published_suite = [] {
  for (const Published& published : kPublished) {
    boost::ut::test(published.graph) = [published] {
      simdjson::dom::parser parser;
      const simdjson::dom::element graph = parser.load(kRoot + "/graphs/" + published.graph + ".json");
      const auto config_in = [&](const char* key) {
        return parse_config(std::string(simdjson::minify(graph[key].value())), published.graph);
      };

      const Shape shape = config_in("config").shape;
      expect(shape.vocab == 262144_i && shape.hidden == published.hidden && shape.layer_count == published.layers);
      expect(shape.heads == published.heads && shape.window == published.window && shape.max_positions == published.positions);
      expect(shape.softcap == 30.0_f && shape.experts == published.experts && shape.ple_width == published.ple_width);
      expect(shape.bidirectional_images == (published.full_v_rows == 0));
      int own[2] = {0, 0};
      for (int i = 0; i < shape.layer_count; ++i) {
        const auto& layer = shape.layers[i];
        const bool full = layer.kind == LayerKind::full;
        expect(full == (i % (published.first_full + 1) == published.first_full)) << i;
        const int k_rows = layer.kv_heads * layer.head_dim;
        expect(k_rows == (full ? published.full_k_rows : published.sliding_k_rows)) << i;
        expect(layer.head_dim == (full ? 512 : 256)) << i;
        if (layer.kv_layer == i) {
          ++own[full];
          expect(layer.values_are_keys == (full && published.full_v_rows == 0)) << i;
        } else {
          expect(layer.kv_layer == published.shared_source[full]) << i;
        }
      }
      expect(own[0] == published.own_kv_layers[0] && own[1] == published.own_kv_layers[1]);
      expect(shape.layers[shape.layer_count - 1].intermediate == published.last_intermediate);

      const Config assistant = config_in("assistant");
      expect(fatal(assistant.assistant.has_value()));
      expect(assistant.assistant->target_hidden == published.hidden && assistant.assistant->centroids == published.centroids);
      expect(assistant.shape.hidden == published.assistant_hidden && assistant.shape.heads == published.assistant_heads);
      expect(assistant.shape.layer_count == 4_i && full_layers(assistant.shape) == std::vector{3});
      for (int i = 0; i < 4; ++i) {  // the K/V it reads have its target's shape
        const auto& layer = assistant.shape.layers[i];
        const auto& target = shape.layers[layer.kind == LayerKind::full ? published.first_full : 0];
        expect(layer.kv_layer == -1_i && layer.kv_heads == target.kv_heads && layer.head_dim == target.head_dim) << i;
      }
    };
  }
};

}  // namespace
}  // namespace lapidary::test::config_test
