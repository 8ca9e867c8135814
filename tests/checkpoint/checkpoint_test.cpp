// Checkpoint folders: single files, shards, and everything a folder can lack.
#include <boost/ut.hpp>

#include <sys/stat.h>

#include "support/cases.hpp"

namespace lapidary::test::checkpoint_test {
namespace {

using namespace boost::ut;
namespace fs = std::filesystem;

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> folders;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (fs::exists(entry.path() / "config.json")) folders.push_back(entry.path().string());
  }
  return folders;
}

std::string outcome(const TemporaryFolder& folder) {
  return outcome_of([&] { Checkpoint::open(folder.path()); });
}

// Three tensors in two files, after a tensor of three bytes: nothing is aligned.
NamedTensor tensor(std::string name, DType type, std::int64_t count, std::string_view data) {
  return {std::move(name), {type, {count}, bytes_of(data)}};
}

struct Shards {
  TemporaryFolder folder;
  std::vector<NamedTensor> first = {tensor("a", DType::u8, 3, "abc"), tensor("c", DType::f32, 2, "ccccCCCC")};
  std::vector<NamedTensor> second = {tensor("b", DType::bf16, 1, "bb")};
  std::string map = R"("a":"one.safetensors","b":"two.safetensors","c":"one.safetensors")";

  void write() const {
    fs::copy_file(kFixtures + "/bad/config/ok-base.json", folder.path("config.json"), fs::copy_options::overwrite_existing);
    write_safetensors(folder.path("one.safetensors"), first);
    write_safetensors(folder.path("two.safetensors"), second);
    folder.write("model.safetensors.index.json", R"({"metadata":{"total_size":13},"weight_map":{)" + map + "}}");
  }
};

suite<"checkpoint"> checkpoint_suite = [] {
  "every fixture and the built-in model open"_test = [] {
    std::vector<std::string> folders = folders_in(kFixtures + "/models");
    for (const std::string& more : {kFixtures + "/assistants", kRoot + "/models", kFixtures + "/bad/checkpoints"}) {
      std::ranges::copy(folders_in(more), std::back_inserter(folders));
    }
    expect(folders.size() >= 45_ul);
    for (const std::string& folder : folders) {
      const Checkpoint checkpoint = Checkpoint::open(folder);
      expect(checkpoint.folder() == folder);
      expect(checkpoint.tensors().size() > 10_ul) << folder;
      expect(checkpoint.mapped_bytes() == fs::file_size(folder + "/model.safetensors")) << folder;
      expect(std::ranges::is_sorted(checkpoint.tensors(), {}, &NamedTensor::name)) << folder;
      for (const NamedTensor& named : checkpoint.tensors()) {
        expect(checkpoint.find(named.name) == &named.tensor) << named.name;
      }
    }
  };

  "tensors of the built-in model"_test = [] {
    const Checkpoint pebble = Checkpoint::open(kRoot + "/models/pebble");
    expect(pebble.config().shape.layer_count == 12_i && pebble.config().shape.experts == 16_i);
    const Tensor* embedding = pebble.find("language_model.model.embed_tokens.weight");
    expect(fatal(embedding != nullptr));
    expect(embedding->type == DType::u32 && embedding->shape == std::vector<std::int64_t>{8192, 256 * 4 / 32});
    expect(pebble.find("language_model.model.embed_tokens") == nullptr);
    expect(Checkpoint::open(kRoot + "/models/pebble-assistant").config().assistant->target_hidden == 256_i);
  };

  "values come from the file as they are"_test = [] {
    const Checkpoint model = Checkpoint::open(kFixtures + "/models/dense-bf16");
    const Tensor* norm = model.find("model.language_model.norm.weight");
    expect(fatal(norm != nullptr));
    expect(norm->type == DType::bf16 && norm->shape == std::vector<std::int64_t>{128});
    const std::string file = read_text_file(kFixtures + "/models/dense-bf16/model.safetensors");
    const std::string_view bytes(reinterpret_cast<const char*>(norm->bytes.data()), norm->bytes.size());
    expect(bytes.size() == 256_ul && file.find(bytes) != file.npos);
  };

  "shards become one list, unaligned as they lie"_test = [] {
    Shards shards;
    shards.write();
    Checkpoint opened = Checkpoint::open(shards.folder.path());
    const Checkpoint checkpoint = std::move(opened);
    expect(fatal(checkpoint.tensors().size() == 3_ul));
    for (const auto* wanted : {&shards.first[0], &shards.first[1], &shards.second[0]}) {
      const Tensor* found = checkpoint.find(wanted->name);
      expect(fatal(found != nullptr)) << wanted->name;
      expect(found->type == wanted->tensor.type && std::ranges::equal(found->bytes, wanted->tensor.bytes));
    }
    // pages are aligned and headers padded to 8 bytes: a mapping leaves c at 8n + 3, a copy would not
    expect(reinterpret_cast<std::uintptr_t>(checkpoint.find("c")->bytes.data()) % 8 == 3_ul);
    expect(checkpoint.mapped_bytes() ==
           fs::file_size(shards.folder.path("one.safetensors")) + fs::file_size(shards.folder.path("two.safetensors")));
  };

  "shards that do not fit their index"_test = [] {
    Shards missing;
    missing.map = R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")";
    missing.write();
    expect(outcome(missing.folder) == "missing_tensor");

    Shards twice;
    twice.second.push_back(twice.first[0]);
    twice.write();
    expect(outcome(twice.folder) == "duplicate_name");

    Shards unlisted;  // a tensor the index forgot is a tensor all the same
    unlisted.map = R"("a":"one.safetensors","b":"two.safetensors")";
    unlisted.write();
    expect(outcome(unlisted.folder) == "ok");

    Shards no_shard;
    no_shard.write();
    fs::remove(no_shard.folder.path("two.safetensors"));
    expect(outcome(no_shard.folder) == "io");
  };

  "folders that lack something"_test = [] {
    expect(outcome_of([] { Checkpoint::open("/no/such/folder"); }) == "io");
    Shards shards;
    shards.write();
    fs::remove(shards.folder.path("model.safetensors.index.json"));
    expect(outcome(shards.folder) == "io");
    shards.folder.write("model.safetensors", "");
    expect(outcome(shards.folder) == "truncated");
    fs::remove(shards.folder.path("model.safetensors"));
    ::mkfifo(shards.folder.path("model.safetensors").c_str(), 0600);
    expect(outcome(shards.folder) == "io") << "must not wait for a writer";
    fs::remove(shards.folder.path("config.json"));
    expect(outcome(shards.folder) == "io");
  };

  "a text file has a limit"_test = [] {
    const TemporaryFolder folder;
    folder.write("text", "12345");
    expect(read_text_file(folder.path("text"), 5) == "12345");
    expect(outcome_of([&] { read_text_file(folder.path("text"), 4); }) == "io");
    expect(outcome_of([&] { read_text_file(folder.path("")); }) == "io");
  };
};

suite<"shard index"> index_suite = [] {
  const auto outcome = [](const std::string& json) { return outcome_of([&] { parse_shard_index(json, "test"); }); };

  "files and tensors are sorted"_test = [] {
    const ShardIndex index = parse_shard_index(
        R"({"metadata":{},"weight_map":{"z":"m-1.safetensors","b":"m-2.safetensors","a":"m-1.safetensors"}})", "test");
    expect(index.files == std::vector<std::string>{"m-1.safetensors", "m-2.safetensors"});
    const std::vector<std::pair<std::string, std::size_t>> tensors = {{"a", 0}, {"b", 1}, {"z", 0}};
    expect(index.tensors == tensors);
  };

  "a file name is a plain name"_test = [outcome] {
    const auto named = [&](const std::string& name) { return outcome(R"({"weight_map":{"a":")" + name + "\"}}"); };
    expect(named("model-00001-of-00002.safetensors") == "ok");
    for (const char* bad : {"../model.safetensors", "/etc/model.safetensors", "sub/model.safetensors", "..safetensors",
                            "a\\\\b.safetensors", "model.bin", "", ".safetensors", "a\\u0000.safetensors"}) {
      expect(named(bad) == "bad_value") << bad;
    }
    expect(named(std::string(300, 'a') + ".safetensors") == "bad_value");
  };

  "broken indexes"_test = [outcome] {
    expect(outcome("") == "not_json");
    expect(outcome("[]") == "not_json");
    expect(outcome("{}") == "missing_key");
    expect(outcome(R"({"weight_map":[]})") == "wrong_type");
    expect(outcome(R"({"weight_map":{}})") == "bad_value");
    expect(outcome(R"({"weight_map":{"a":1}})") == "wrong_type");
    expect(outcome(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})") == "duplicate_name");
  };
};

}  // namespace
}  // namespace lapidary::test::checkpoint_test
