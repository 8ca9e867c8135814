// generation_config.json.
#include <boost/ut.hpp>

#include "decode/generation_config.hpp"
#include "support/cases.hpp"

namespace lapidary::test::generation_config_test {
namespace {

using namespace boost::ut;
using decode::GenerationDefaults;
using Ids = std::vector<std::int32_t>;

GenerationDefaults parse(std::string_view json) { return decode::parse_generation_config(json, "generation_config.json"); }

const suite<"generation config"> generation_config = [] {
  "all values are read"_test = [] {
    const auto defaults = parse(R"({"do_sample": true, "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05,
        "repetition_penalty": 1.1, "suppress_tokens": [258883, 258882, 258883],
        "eos_token_id": [1, 106, 50], "bos_token_id": 2})");
    expect(defaults.temperature == 0.7f && defaults.top_k == 20 && defaults.top_p == 0.8f && defaults.min_p == 0.05f);
    expect(defaults.repetition_penalty == 1.1f);
    expect(defaults.suppress_tokens == Ids{258882, 258883});
    expect(defaults.eos_tokens == Ids{1, 50, 106});
  };

  "what is not said is as in Gemma's own files"_test = [] {
    for (const char* json : {"{}", R"({"temperature": null, "top_k": null, "suppress_tokens": null, "eos_token_id": null})"}) {
      const auto defaults = parse(json);
      expect(defaults.temperature == 1.0f && defaults.top_k == 64 && defaults.top_p == 0.95f && defaults.min_p == 0.0f);
      expect(defaults.repetition_penalty == 1.0f && defaults.suppress_tokens.empty() && defaults.eos_tokens.empty());
    }
  };

  "no sampling is temperature 0"_test = [] {
    expect(parse(R"({"do_sample": false, "temperature": 0.7})").temperature == 0.0f);
    expect(parse(R"({"do_sample": true, "temperature": 0.0})").temperature == 0.0f);
  };

  "stop ids of both files are joined, as a number or a list"_test = [] {
    const TemporaryFolder folder;
    const auto eos_of = [&](std::string_view generation, std::string_view config) {
      folder.write("generation_config.json", generation);
      folder.write("config.json", config);
      return decode::read_generation_defaults(folder.path()).eos_tokens;
    };
    expect(eos_of(R"({"eos_token_id": [1, 106, 50]})", R"({"eos_token_id": [1, 106]})") == Ids{1, 50, 106});
    expect(eos_of(R"({"eos_token_id": 106})", R"({"eos_token_id": 7})") == Ids{7, 106});
    expect(eos_of("{}", R"({"eos_token_id": 9})") == Ids{9});
    expect(eos_of("{}", "{}") == Ids{1});
  };

  "a folder without the file has the defaults"_test = [] {
    const TemporaryFolder folder;
    folder.write("config.json", R"({"eos_token_id": [1, 106]})");
    const auto defaults = decode::read_generation_defaults(folder.path());
    expect(defaults.temperature == 1.0f && defaults.top_k == 64 && defaults.eos_tokens == Ids{1, 106});
  };

  "the demo model's file is read"_test = [] {
    const auto defaults = decode::read_generation_defaults(kRoot + "/models/pebble");
    expect(defaults.temperature == 0.8f && defaults.top_k == 40 && defaults.top_p == 0.95f);
    expect(defaults.eos_tokens == Ids{1, 6, 14});
  };

  "wrong values are refused by name"_test = [] {
    const std::pair<const char*, const char*> wrong[] = {
        {R"({"temperature": -1})", "temperature"},
        {R"({"temperature": 1e308})", "temperature"},
        {R"({"temperature": "hot"})", "temperature"},
        {R"({"temperature": 1, "temperature": 2})", "temperature"},
        {R"({"do_sample": 1})", "do_sample"},
        {R"({"top_k": -1})", "top_k"},
        {R"({"top_k": 1.5})", "top_k"},
        {R"({"top_k": 99999999999})", "top_k"},
        {R"({"top_p": 1.01})", "top_p"},
        {R"({"min_p": -0.1})", "min_p"},
        {R"({"repetition_penalty": 0})", "repetition_penalty"},
        {R"({"eos_token_id": "one"})", "eos_token_id"},
        {R"({"eos_token_id": [1, -2]})", "eos_token_id"},
        {R"({"eos_token_id": [1, [2]]})", "eos_token_id"},
        {R"({"eos_token_id": 2147483648})", "eos_token_id"},
        {R"({"eos_token_id": 18446744073709551615})", "eos_token_id"},
        {R"({"eos_token_id": 1, "eos_token_id": 2})", "eos_token_id"},
        {R"({"suppress_tokens": [1.5]})", "suppress_tokens"},
        {R"({"suppress_tokens": {}})", "suppress_tokens"},
    };
    for (const auto& [json, key] : wrong) {
      const auto error = error_of([&] { parse(json); });
      expect(fatal(error.has_value())) << json;
      expect(error->message().find(key) != std::string::npos && error->where == "generation_config.json") << error->message();
    }
    for (const char* json : {"", "[]", "1", "{", "{\"top_k\": }", "\xff"})
      expect(outcome_of([&] { parse(json); }) == "not_json") << json;
  };

  "a file that is there must be readable and small"_test = [] {
    const TemporaryFolder folder;
    folder.write("config.json", "{}");
    std::filesystem::create_symlink("nowhere", folder.path("generation_config.json"));
    expect(outcome_of([&] { decode::read_generation_defaults(folder.path()); }) == "io") << "a link to nothing";
    std::filesystem::remove(folder.path("generation_config.json"));
    folder.write("generation_config.json", "{}" + std::string(2 << 20, ' '));
    expect(outcome_of([&] { decode::read_generation_defaults(folder.path()); }) == "io") << "too large";
    std::filesystem::remove(folder.path("generation_config.json"));
    std::filesystem::remove(folder.path("config.json"));
    expect(outcome_of([&] { decode::read_generation_defaults(folder.path()); }) == "io") << "no config.json";
  };
};

}  // namespace
}  // namespace lapidary::test::generation_config_test
