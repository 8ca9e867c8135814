// vision_config and audio_config -> shapes of towers.
#include <boost/ut.hpp>

#include "support/cases.hpp"

namespace lapidary::test::tower_config_test {
namespace {

using namespace boost::ut;

Config config_of(const std::string& model) {
  const std::string path = kFixtures + "/models/" + model + "/config.json";
  return parse_config(read_text_file(path), path);
}

// A model whose towers are these.
std::optional<Error> error_with(const std::string& towers) {
  const std::string text =
      R"({"model_type":"gemma4_text","vocab_size":100,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":8,)"
      R"("num_key_value_heads":4,"head_dim":16,"global_head_dim":32,"sliding_window":10,"max_position_embeddings":64})";
  return error_of([&] { parse_config(R"({"model_type":"gemma4","text_config":)" + text + "," + towers + "}", "test"); });
}

std::string vision(const std::string& changes) {
  return R"("vision_config":{"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,"head_dim":32,"intermediate_size":128)" + changes + "}";
}
std::string audio(const std::string& changes) {
  return R"("audio_config":{"hidden_size":64,"num_hidden_layers":1,"num_attention_heads":4,"output_proj_dims":96)" + changes + "}";
}

void expect_refused(const std::string& towers, const std::string& mentions) {
  const auto error = error_with(towers);
  expect(error && error->message().find(mentions) != std::string::npos) << towers << (error ? error->message() : "taken");
}

const suite<"configs of towers"> configs = [] {
  "towers of the small models"_test = [] {
    const Config dense = config_of("dense-bf16"), ple = config_of("ple-bf16"), unified = config_of("unified-bf16");
    expect(fatal(dense.vision && !dense.audio && ple.vision && ple.audio && unified.vision && unified.audio));
    expect(*dense.vision == graph::VisionShape{.hidden = 64, .layer_count = 2, .heads = 2, .head_dim = 32, .intermediate = 128, .patch = 16,
                                               .pool = 3, .positions = 240, .rope_theta = 100.0, .standardised = true});
    expect(ple.vision->clipped && !ple.vision->standardised);
    expect(*ple.audio == graph::AudioShape{.input = 128, .hidden = 64, .layer_count = 1, .heads = 4, .channels = {128, 8}, .kernel = 5,
                                           .window = 12, .output = 96, .logit_cap = 50.0f, .residual_weight = 0.5f, .clipped = true});
    expect(*unified.vision == graph::VisionShape{.hidden = 32, .patch = 48, .positions = 96});
    expect(*unified.audio == graph::AudioShape{.input = 640});
  };

  "a model of texts has none, nor one that says null"_test = [] {
    const Config text = config_of("dense-nvfp4");
    expect(!text.vision && !text.audio);
    expect(!error_with(R"("vision_config":null,"audio_config":null)").has_value());
  };

  "keys may be missing that all published models have alike"_test = [] {
    expect(!error_with(vision("")).has_value());
    expect(!error_with(audio(R"(,"subsampling_conv_channels":[128,32])")).has_value());
  };

  "what no kernel takes is refused"_test = [] {
    expect_refused(vision(R"(,"num_key_value_heads":1)"), "num_key_value_heads");
    expect_refused(R"("vision_config":{"hidden_size":63,"num_hidden_layers":2,"num_attention_heads":2,"head_dim":32,"intermediate_size":128})", "hidden_size");
    expect_refused(R"("vision_config":{"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,"head_dim":30,"intermediate_size":128})", "head_dim");
    expect_refused(R"("vision_config":{"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":16,"intermediate_size":128})", "head_dim");
    expect_refused(vision(R"(,"hidden_activation":"relu")"), "hidden_activation");
    expect_refused(vision(R"(,"attention_bias":true)"), "attention_bias");
    expect_refused(vision(R"(,"pooling_kernel_size":0)"), "pooling_kernel_size");
    expect_refused(vision(R"(,"model_type":"siglip")"), "model_type");
    expect_refused(R"("vision_config":[])", "vision_config");
    expect_refused(audio(""), "subsampling_conv_channels");
    for (const char* channels : {"[128]", "[128,32,8]", "[128,7]", "[128,null]", "[0,8]"})
      expect_refused(audio(std::string(R"(,"subsampling_conv_channels":)") + channels), "subsampling_conv_channels");
    expect_refused(audio(R"(,"subsampling_conv_channels":[128,32],"attention_context_right":1)"), "attention_context_right");
    expect_refused(audio(R"(,"subsampling_conv_channels":[128,32],"attention_context_left":1000)"), "attention_context_left");
    expect_refused(R"("audio_config":{"hidden_size":64,"num_hidden_layers":1,"num_attention_heads":16,"output_proj_dims":96,"subsampling_conv_channels":[128,32]})", "num_attention_heads");
    expect_refused(R"("audio_config":{"model_type":"gemma4_unified_audio","audio_embed_dim":641})", "audio_embed_dim");
  };
};

}  // namespace
}  // namespace lapidary::test::tower_config_test
