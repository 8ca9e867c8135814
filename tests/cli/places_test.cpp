// Models by name: in folders of LAPIDARY_MODELS and in the cache of a hub, with their assistants.
#include <boost/ut.hpp>

#include <filesystem>

#include "support/program.hpp"
#include "text/value.hpp"

namespace lapidary::test::places_test {
namespace {

using namespace boost::ut;
namespace fs = std::filesystem;

// A cache as the hub's tools lay it out: blobs, and snapshots of links to them.
class Cache {
 public:
  Cache() {
    add("lapidary/pebble", kRoot + "/models/pebble", "0a1b");
    add("someone/pebble-assistant", kRoot + "/models/pebble-assistant", "77");
    add("someone/other", "", "1");
  }

  void add(const std::string& repo, const std::string& from, const std::string& commit, const std::string& reference = "main") {
    std::string name = repo;
    name.replace(name.find('/'), 1, "--");
    const fs::path root = fs::path(folder_.path("hub")) / ("models--" + name);
    fs::create_directories(root / "snapshots" / commit);
    fs::create_directories(root / "refs");
    std::ofstream(root / "refs" / reference) << commit;
    if (from.empty()) {
      std::ofstream(root / "snapshots" / commit / "config.json") << R"({"model_type":"llama"})";
      return;
    }
    for (const auto& entry : fs::directory_iterator(from)) fs::create_symlink(entry.path(), root / "snapshots" / commit / entry.path().filename());
  }

  Outcome run(const std::string& arguments, const std::string& more = "") const {
    return shell("cd / && HF_HUB_CACHE=" + folder_.path("hub") + " " + more + " " + LAPIDARY_PROGRAM + " " + arguments);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TemporaryFolder folder_;
};

const std::string kAsk = " --temperature 0 --threads 1 'What is the capital of Norway?'";

const suite<"models by name"> names = [] {
  "a repo in the hub's cache is found by its name, with the assistant that fits"_test = [] {
    const Cache cache;
    for (const char* name : {"lapidary/pebble", "pebble", "lapidary/pebble@main", "pebble@0a1b"}) {
      const Outcome run = cache.run("generate --stats --model " + std::string(name) + kAsk);
      expect(run.out == "The capital of Norway is Oslo.\n") << name << run.err;
      expect(run.err.find("models--someone--pebble-assistant/snapshots/77") != std::string::npos) << run.err;
    }
    expect(cache.run("tokenize --model pebble hello").status == 0_i);
    expect(cache.run("inspect lapidary/pebble").status == 0_i);
    const Outcome named = cache.run("generate --stats --model pebble --draft-model someone/pebble-assistant" + kAsk);
    expect(named.out == "The capital of Norway is Oslo.\n") << named.err;
  };

  "HF_HOME and HOME lead to the cache too, and HF_HUB_CACHE comes first"_test = [] {
    const Cache cache;
    const auto runs = [&](const std::string& variables) {
      return shell("cd / && env -u HF_HUB_CACHE -u HF_HOME " + variables + " " + LAPIDARY_PROGRAM + " tokenize --model lapidary/pebble hello").status == 0;
    };
    expect(runs("HF_HOME=" + cache.path("")) && !runs("HF_HOME=/nowhere") && !runs("HOME=/nowhere"));
    expect(runs("HF_HOME=/nowhere HF_HUB_CACHE=" + cache.path("hub")));
    fs::create_directories(cache.path("home/.cache/huggingface"));
    fs::create_directory_symlink(cache.path("hub"), cache.path("home/.cache/huggingface/hub"));
    expect(runs("HOME=" + cache.path("home")));
  };

  "a name in a folder of LAPIDARY_MODELS is found"_test = [] {
    const Cache cache;
    fs::create_directories(cache.path("mine"));
    fs::create_directory_symlink(kRoot + "/models/pebble", cache.path("mine/stone"));
    const std::string variable = "LAPIDARY_MODELS=/nowhere:" + cache.path("mine");
    expect(cache.run("tokenize --model stone hello", variable).status == 0_i);
    expect(cache.run("tokenize --model stone hello").status == 1_i);
  };

  "a name that is nowhere, of two, or of a revision that is not there is refused"_test = [] {
    Cache cache;
    const auto says = [&](const std::string& name, int status, const char* words) {
      const Outcome run = cache.run("generate --model " + name + kAsk);
      expect(run.status == status && run.err.find(words) != std::string::npos) << name << run.err;
    };
    says("granite", 1, "[--model] granite, expected a folder, a repo in ");
    says("lapidary/pebble@v9", 1, "lapidary/pebble@v9, expected a folder");
    says("lapidary/../pebble", 1, "expected a folder");
    cache.add("another/pebble", kRoot + "/models/pebble", "5");
    says("pebble", 2, "expected one model of this name, got another/pebble and lapidary/pebble");
  };

  "list shows what can run, and with --all what cannot"_test = [] {
    Cache cache;
    fs::create_directories(cache.path("broken"));
    fs::copy_file(kRoot + "/models/pebble/config.json", cache.path("broken/config.json"));
    cache.add("someone/half", cache.path("broken"), "1");
    const Outcome table = cache.run("list");
    expect(table.status == 0_i && table.out.starts_with("MODEL ")) << table.out;
    for (const char* words : {"\npebble ", "\nlapidary/pebble ", "16.4 MiB", "affine4/64", "someone/pebble-assistant\n"})
      expect(table.out.find(words) != std::string::npos) << words << table.out;
    for (const char* words : {"someone/other", "someone/half", "\nsomeone/pebble-assistant"})
      expect(table.out.find(words) == std::string::npos) << words << table.out;
    expect(table.err == "1 more cannot run; --all says why\n") << table.err;
    expect(cache.run("list --all").out.find("someone/half cannot run: [") != std::string::npos);
    const Outcome lines = cache.run("list --json");
    std::istringstream in(lines.out);
    int count = 0;
    for (std::string line; std::getline(in, line); ++count) {
      const auto value = text::parse_json(line, "line");
      expect(value.find("fits") && value.find("fits")->truthy() && value.find("memory_bytes")) << line;
    }
    expect(count == 2_i);
  };
};

}  // namespace
}  // namespace lapidary::test::places_test
