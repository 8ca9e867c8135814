// lapidary logits and inspect as a user meets them.
#include <boost/ut.hpp>

#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/program.hpp"

namespace lapidary::test::inspect_test {
namespace {

using namespace boost::ut;

std::string json_list(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const auto id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return "[" + text + "]";
}

const suite<"lapidary logits"> logits = [] {
  "writes the tensors of the fixtures under their names"_test = [] {
    const std::string model = kFixtures + "/models/moe-bf16";
    const Expected expected(model + "/expected.safetensors");
    const TemporaryFolder folder;
    std::ofstream(folder.path("ids.json")) << "[" << json_list(expected.ids("prompt0.input_ids")) << ","
                                           << json_list(expected.ids("prompt1.input_ids")) << "]";
    for (const char* flags : {"--chunk 5 --threads 1", "--threads 2"}) {
      const Outcome run = lapidary("logits " + model + " --ids " + folder.path("ids.json") + " -o " + folder.path("o") +
                                   " --hidden --greedy 64 " + flags);
      expect(fatal(run.status == 0)) << run.err;
      const Expected ours(folder.path("o"));
      expect(ours.ids("prompt1.greedy") == expected.ids("prompt1.greedy"));
      expect(run.out.starts_with(std::to_string(expected.ids("prompt0.greedy")[0]) + " ")) << run.out;
      for (const char* name : {"prompt0.logits", "prompt1.logits", "prompt1.layer0", "prompt1.layer2", "prompt1.final_norm"}) {
        expect(fatal(ours.has(name))) << name;
        expect(ours.find(name)->shape == expected.find(name)->shape) << name;
        const auto a = ours.floats(name), b = expected.floats(name);
        float largest = 0;
        for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
        expect(largest < 0.002f) << name;
      }
    }
  };

  "a mistake gives one line, a status and no file"_test = [] {
    const TemporaryFolder folder;
    std::ofstream(folder.path("ids.json")) << "[[1,2,3]]";
    std::ofstream(folder.path("far.json")) << "[[1,2,3000]]";
    std::ofstream(folder.path("not.json")) << "[[1,2,";
    const std::string model = kFixtures + "/models/dense-bf16", good = " --ids " + folder.path("ids.json");
    const std::string out = " -o " + folder.path("o");
    for (const auto& [arguments, status] : std::vector<std::pair<std::string, int>>{
             {"logits " + model + " --ids " + folder.path("not.json") + out, 1},
             {"logits " + model + " --ids " + folder.path("missing.json") + out, 1},
             {"logits " + model + " --ids " + folder.path("far.json") + out, 2},
             {"logits " + folder.path("nowhere") + good + out, 1},
             {"logits " + kFixtures + "/bad/checkpoints/missing-norm" + good + out, 1},
             {"logits " + model + good + out + " --memory 1000", 1},
             {"logits " + model + good + out + " --memory lots", 2},
             {"logits " + model + good + out + " --chunk 100000", 2},
             {"logits " + model + good + out + " --context 2", 2},
             {"logits " + model + good + " -o " + folder.path("no/such/folder"), 1}}) {
      const Outcome run = lapidary(arguments);
      expect(run.status == status) << arguments << "\n" << run.err;
      expect(run.err.starts_with("[") && run.err.find('\n') == run.err.size() - 1) << arguments << "\n" << run.err;
      expect(!std::filesystem::exists(folder.path("o"))) << arguments;
    }
    expect(lapidary("logits " + model).status == 2_i);
    expect(lapidary("cut").status == 2_i);
    expect(lapidary("--help").status == 0_i);
  };

  "a shape that was not compiled in is refused with the way to add it"_test = [] {
    const TemporaryFolder folder;
    std::string config = read_all(kFixtures + "/models/dense-bf16/config.json");
    const std::string window = "\"sliding_window\": 16";
    expect(fatal(config.find(window) != std::string::npos));
    config.replace(config.find(window), window.size(), "\"sliding_window\": 17");
    std::ofstream(folder.path("config.json")) << config;
    std::filesystem::copy_file(kFixtures + "/models/dense-bf16/model.safetensors", folder.path("model.safetensors"));
    const Outcome run = lapidary("inspect " + folder.path());
    expect(run.status == 1_i);
    expect(run.err.find("extra_graphs") != std::string::npos) << run.err;
  };
};

const suite<"lapidary inspect"> inspect = [] {
  "memory is limited in the units that people write"_test = [] {
    const auto inspect = [](const std::string& memory) { return lapidary("inspect " + kRoot + "/models/pebble --memory " + memory); };
    for (const char* enough : {"8G", "8GB", "8g", "8gb", "1.5G", "0.5GiB", "900m", "900000000", "900000K"})
      expect(inspect(enough).status == 0_i) << enough;
    for (const char* little : {"1M", "1000", "1.5mb", "64k", "64KiB"}) {
      const Outcome run = inspect(little);
      expect(run.status == 1_i && run.err.starts_with("[memory] ")) << little << run.err;
    }
    for (const char* wrong : {"lots", "8X", "-8G", "8GBB", "G", "''", "nan", "1e30G", "8iB"})
      expect(inspect(wrong).status == 2_i) << wrong;
  };

  "its plan is what generate may use, tokenizer and all"_test = [] {
    const std::string model = kRoot + "/models/pebble";
    const Outcome plan = lapidary("inspect " + model + " --json --context 256 --threads 1");
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    expect(fatal(!parser.parse(plan.out).get(root))) << plan.err;
    const std::int64_t needed = root["memory"]["anonymous_bytes"];
    const auto generate = [](std::int64_t bytes) {
      return lapidary("generate --context 256 --threads 1 --max-tokens 1 --temperature 0 --memory " + std::to_string(bytes) + " story");
    };
    expect(generate(needed).status == 0_i);
    const Outcome refused = generate(needed - 1);
    expect(refused.status == 1_i && refused.err.starts_with("[memory] ")) << refused.err;
  };

  "tells how K/V are stored, and refuses what a mode has not"_test = [] {
    const std::string model = kRoot + "/models/pebble";
    for (const char* flag : {"--kv q8", "--turbo-kv"}) {
      const Outcome json = lapidary("inspect " + model + " --json --context 1024 " + flag);
      expect(fatal(json.status == 0)) << json.err;
      simdjson::dom::parser parser;
      const simdjson::dom::element kv = simdjson::dom::element(parser.parse(json.out))["kv"];
      expect(std::string_view(kv["kind"]) == "q8");
      std::int64_t bytes = 0;
      for (const simdjson::dom::element layer : kv["full_layers"]) {
        expect(std::int64_t(layer["stores"]) == 1);
        bytes += std::int64_t(layer["bytes_per_token"]);
      }
      expect(bytes == 2 * (128 + 4 + 32 + 4) && std::int64_t(kv["bytes_per_token"]) == bytes) << bytes;
      expect(std::int64_t(kv["full_bytes"]) == 1024 * bytes);
    }
    const Outcome text = lapidary("inspect " + model + " --kv q4 --context 1024");
    expect(text.out.find(", q4; 208.0 KiB in 2 full layers with one store each, the rest in windows\n") != std::string::npos) << text.out;
    const Outcome two = lapidary("inspect " + model + " --context 1024");
    expect(two.out.find(", f32; 2.0 MiB in 2 full layers with two stores each, the rest in windows\n") != std::string::npos) << two.out;

    const auto refused = [&](const std::string& flags) { return lapidary("inspect " + model + " " + flags).err; };
    expect(refused("--kv bf16") == "[--kv] K/V in the exact mode, expected f32, q8 or q4, got bf16\n");
    expect(refused("--kv f32 --numeric fast") == "[--kv] K/V in the fast mode, expected bf16, q8 or q4, got f32\n");
    expect(refused("--kv q9").starts_with("[--kv] expected one of auto, f32, bf16, q8, q4, got 'q9'")) << refused("--kv q9");
    expect(lapidary("inspect " + model + " --kv q4 --turbo-kv").status == 2_i);
  };

  "tells shape, storage, cost and memory as text and as JSON"_test = [] {
    const std::string model = kRoot + "/models/pebble";
    const Outcome text = lapidary("inspect " + model + " --graph");
    expect(fatal(text.status == 0)) << text.err;
    for (const char* piece : {"graph pebble", "affine4/64", "affine8/64", "memory for 4096 tokens", "segment forward",
                              "moe_combine", "router.proj:affine8/64", "segment vision", "attention_all", "mlp.gate_proj.linear:bf16"})
      expect(text.out.find(piece) != std::string::npos) << piece;

    // Where the bytes are, the largest part first, with a bar as long as its share.
    for (const char* piece : {"\n  parameters     28.3 million\n", "\n  context        up to 8192 tokens\n",
                              "\nweights\n  experts                    affine4/64      36 tensors   10.1 MiB  57.4 %  ##########################\n",
                              "\n  assistant embedding        affine4/64       1 tensors  576.0 KiB   3.2 %  #\n",
                              "\n  weights        7.7 MiB\n", "\n  K/V            2.0 KiB\n", "\n  towers         3.8 MiB\n"})
      expect(text.out.find(piece) != std::string::npos) << piece;

    for (const char* piece : {"\nvision tower\n  shape          6 layers, hidden 192, 4 heads of 48, patches of 16 x 16 pixels, 9 to a soft token\n",
                              "\n  weights        5.3 MiB, bf16, affine4/64\n", "\n  per picture    280 soft tokens, 20.6 billion products\n"})
      expect(text.out.find(piece) != std::string::npos) << piece;

    const Outcome json = lapidary("inspect " + model + " --json --graph --context 1000");
    expect(fatal(json.status == 0)) << json.err;
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    expect(fatal(!parser.parse(json.out).get(root))) << json.out;
    const auto number = [&](const char* group, const char* key) { return std::int64_t(root[group][key]); };
    expect(number("shape", "layers") == 12 && number("memory", "context_tokens") == 1000);
    expect(number("shape", "parameters") == 28321996 && number("shape", "context_limit") == 8192);
    expect(number("memory", "anonymous_bytes") ==
           number("memory", "kv_bytes") + number("memory", "arena_bytes") + number("memory", "tower_bytes") + number("memory", "constants_bytes") +
               number("memory", "repacked_bytes") + number("memory", "thread_bytes") + number("memory", "text_bytes"));
    expect(number("memory", "text_bytes") > 0);
    expect(std::string_view(root["memory"]["kv_format"]) == "f32");  // pebble is exact
    // Everything but the experts out of use and all but one row of the embedding... which is the output matrix, read whole.
    expect(number("per_token", "weight_bytes") < number("memory", "weights_mapped_bytes"));
    std::int64_t steps = 0;
    for (const simdjson::dom::element step : root["steps"]) {
      const std::string_view segment = step["segment"];
      steps += segment == "forward" || segment == "head" || segment == "select";
    }
    expect(steps == number("per_token", "steps"));
  };
};

}  // namespace
}  // namespace lapidary::test::inspect_test
