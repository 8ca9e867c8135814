// The `quantization` block of a config.
#include <boost/ut.hpp>

#include "support/cases.hpp"

namespace lapidary::test::quantization_test {
namespace {

using namespace boost::ut;

std::string with_block(std::string_view members) {
  std::string json = read_text_file(kFixtures + "/bad/config/ok-base.json");
  const auto open = json.find('{');
  return json.replace(open, 1, "{" + std::string(members) + ",");
}

std::optional<Quantization> quantization_of(std::string_view members) {
  return parse_config(with_block(members), "test").quantization;
}

std::string outcome(std::string_view members) {
  const auto error = error_of([&] { quantization_of(members); });
  if (!error) return "ok";
  const bool says_where = error->message().find("quantization") != std::string::npos;
  return says_where ? std::string(name_of(error->kind)) : error->message();
}

suite<"quantization"> quantization_suite = [] {
  "mode, bits and groups"_test = [] {
    for (const int bits : {2, 3, 4, 5, 6, 8}) {
      for (const int group : {32, 64, 128}) {
        const auto read = quantization_of("\"quantization\":{\"bits\":" + std::to_string(bits) +
                                          ",\"group_size\":" + std::to_string(group) + "}");
        expect(fatal(read.has_value()));
        expect(read->everywhere.encoding == Encoding::affine && read->everywhere.bits == bits && read->everywhere.group == group);
        expect(read->overrides.empty());
      }
    }
    expect(quantization_of(R"("quantization":{"bits":8,"group_size":32,"mode":"mxfp8"})")->everywhere.encoding == Encoding::mxfp8);
    for (const char* bad : {R"({"bits":0,"group_size":64})", R"({"bits":4,"group_size":16})", R"({"bits":4,"group_size":256})",
                            R"({"bits":8,"group_size":32,"mode":"mxfp4"})", R"({"bits":4,"group_size":32,"mode":"mxfp8"})",
                            R"({"bits":4,"group_size":64,"mode":"mxfp4"})", R"({"bits":4,"group_size":64,"mode":"AFFINE"})"}) {
      expect(outcome("\"quantization\":" + std::string(bad)) == "unsupported") << bad;
    }
    expect(outcome(R"("quantization":{"bits":4})") == "missing_key");
    expect(outcome(R"("quantization":{"bits":"4","group_size":64})") == "wrong_type");
  };

  "an override without a mode is affine in any file"_test = [] {
    const auto read = parse_config(read_text_file(kFixtures + "/models/moe-mxfp4/config.json"), "test").quantization;
    expect(fatal(read.has_value()));
    expect(read->everywhere.encoding == Encoding::mxfp4 && read->everywhere.bits == 4 && read->everywhere.group == 32);
    expect(read->overrides.size() == 3_ul);
    const auto& router = read->overrides.at("language_model.model.layers.0.router.proj");
    expect(router && router->encoding == Encoding::affine && router->bits == 8 && router->group == 64);
  };

  "false leaves a module alone"_test = [] {
    const auto read = parse_config(read_text_file(kFixtures + "/models/moe-mixed/config.json"), "test").quantization;
    expect(fatal(read.has_value() && read->overrides.size() == 9));
    expect(read->overrides.at("language_model.model.layers.1.self_attn.o_proj") == std::nullopt);
    expect(read->overrides.at("language_model.model.layers.0.mlp.up_proj")->group == 128);
    const std::string block = R"("quantization":{"bits":4,"group_size":64,"a.b":)";
    expect(outcome(block + "false}") == "ok");
    expect(outcome(block + "true}") == "wrong_type");
    expect(outcome(block + "4}") == "wrong_type");
    expect(outcome(block + "null}") == "wrong_type");
    expect(outcome(block + R"({"bits":7,"group_size":64}})") == "unsupported");
    expect(outcome(block + R"({"bits":8}})") == "missing_key");
    expect(outcome(block + R"(false,"a.b":false})") == "bad_value");
  };

  "quantization_config is a copy, or another format"_test = [] {
    const std::string mlx = R"({"bits":4,"group_size":64})";
    expect(quantization_of("\"quantization_config\":" + mlx)->everywhere.bits == 4);
    expect(!quantization_of(R"("quantization":null,"quantization_config":null)"));
    const std::string other = R"("quantization_config":{"quant_method":"gemma","bits":4,"group_size":64})";
    expect(outcome(other) == "unsupported");
    expect(outcome("\"quantization\":" + mlx + "," + other) == "ok");
  };

  "storages have short names"_test = [] {
    expect(name_of(Storage{}) == "bf16");
    expect(name_of(Storage{Encoding::affine, DType::bf16, 4, 64}) == "affine4/64");
    expect(name_of(Storage{Encoding::mxfp4, DType::u8, 4, 32}) == "mxfp4/32");
    expect(name_of(Storage{Encoding::nvfp4, DType::u8, 4, 16}) == "nvfp4/16");
  };
};

}  // namespace
}  // namespace lapidary::test::quantization_test
