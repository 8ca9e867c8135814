// Programs cut for one checkpoint: the same ids, no other checkpoint, nothing damaged.
#include <boost/ut.hpp>

#include <filesystem>
#include <fstream>

#include "support/pairs.hpp"
#include "support/program.hpp"
#include "support/slow_build.hpp"
#include "support/soft_prompts.hpp"
#include "support/terminal.hpp"

namespace lapidary::test::cut_test {
namespace {

using namespace boost::ut;
namespace fs = std::filesystem;

const std::string kPebble = kRoot + "/models/pebble";

// A gem in a folder of its own.
class Gem {
 public:
  explicit Gem(const std::string& arguments) {
    const Outcome cut = lapidary("cut " + arguments + " -o " + path());
    expect(cut.status == 0_i && cut.err.starts_with(path() + ": program ")) << cut.err;
  }
  std::string path() const { return folder_.path("gem"); }
  std::string payload() const { return fs::exists(path() + ".weights") ? path() + ".weights" : path(); }
  Outcome run(const std::string& arguments) const { return shell(path() + " " + arguments); }
  std::string path(const std::string& name) const { return folder_.path(name); }
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }

 private:
  TemporaryFolder folder_;
};

const Gem& pebble_beside() {
  static const Gem gem(kPebble + " --weights beside");
  return gem;
}

// All that the fast mode wants is in it.
const Gem& pebble_fast() {
  static const Gem gem(kPebble + " --weights embed --numeric fast");
  return gem;
}

// Of a model that neither sees nor hears.
const Gem& text_only() {
  static const Gem gem(kFixtures + "/models/moe-4bit --weights beside");
  return gem;
}

// How many drafts were, by position.
std::string accepted(const Outcome& json) {
  const std::size_t at = json.out.find("\"accepted_by_position\":");
  expect(at != std::string::npos) << json.err;
  return json.out.substr(at, json.out.find(']', at) - at);
}

void flip_byte(const std::string& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 1));
}

const suite<"gems"> gems = [] {
  "gems of all shapes and storages give the logits of the stock program"_test = [] {
    struct Case {
      const char *model, *weights;
    };
    std::vector<Case> cases{{"dense-bf16", "beside"}, {"moe-mixed", "embed"}};
    if (!kSlowBuild)
      cases = {{"dense-bf16", "beside"}, {"dense-nvfp4", "mapped"}, {"moe-bf16", "embed"}, {"moe-mixed", "mapped"}, {"ple-4bit", "embed"}, {"unified-8bit", "beside"}};
    for (const auto& [model, weights] : cases) {
      const std::string folder = kFixtures + "/models/" + model;
      const Gem gem(folder + " --weights " + weights);
      text::Value::Array prompts{list_of({2, 5, 9, 33, 7, 100, 20}), list_of({1})};
      if (std::string_view(model).starts_with("ple")) prompts.push_back(entry_of(SoftFixture("ple").prompts.at("image-audio")));
      gem.write("ids.json", text::to_json(prompts));
      for (const char* numeric : {"exact", "fast"}) {
        const std::string flags = " --ids " + gem.path("ids.json") + " --greedy 20 --hidden --numeric " + numeric + " -o ";
        const Outcome stock = lapidary("logits " + folder + flags + gem.path("stock"));
        const Outcome own = gem.run("logits" + flags + gem.path("own"));
        expect(stock.status == 0_i && own.status == 0_i) << stock.err << own.err;
        expect(read_all(gem.path("stock")) == read_all(gem.path("own")) && stock.out == own.out) << model << numeric;
        expect(read_all(gem.path("own")).size() > 1000u);
      }
    }
  };

  "a gem of pebble says what the stock program says, with all drafts and without"_test = [] {
    std::vector<const char*> ways{"--temperature 0.9 --seed 7"};
    if (!kSlowBuild) ways = {"--temperature 0", "--temperature 0.9 --seed 7", "--seed 7 --repetition-penalty 1.3"};
    for (const char* how : ways)
      for (const char* drafts : {"auto", "none", "mtp", "dflash"})
        for (const char* numeric : {"exact", "fast"}) {
          const std::string flags = std::string("generate 'Tell me about foxes' -n 24 ") + how + " --draft-kind " + drafts + " --numeric " + numeric;
          const Outcome stock = lapidary(flags + " --model " + kPebble);
          for (const Gem* gem : {&pebble_beside(), &pebble_fast()}) {
            const Outcome own = gem->run(flags);
            expect(own.status == 0_i && own.out.size() > 10u && own.out == stock.out) << flags << own.err;
          }
        }
  };

  "its drafters draft what they draft for the stock program, with the other one and without"_test = [] {
    for (const char* drafts : {"mtp", "dflash"}) {
      const std::string flags = std::string("generate 'List the days of the week' -n 24 --temperature 0 --draft-tokens 4 --numeric fast --json --draft-kind ") + drafts;
      const std::string stock = accepted(lapidary(flags));
      expect(stock.find("[0,") == std::string::npos) << stock << "some are accepted";
      expect(accepted(pebble_fast().run(flags)) == stock) << drafts;
    }
    const Gem alone(kPebble + " --weights mapped --draft-model " + kPebble + "-dflash");
    const std::string told = alone.run("inspect").out;
    expect(told.find("pebble-dflash") != std::string::npos && told.find("pebble-assistant") == std::string::npos) << told;
    expect(alone.run("generate story --temperature 0 -n 8 --draft-kind dflash").status == 0_i);
    const Outcome none = alone.run("generate story --draft-kind mtp");
    expect(none.status == 2_i && none.err.find("mtp, expected a program that was cut with an assistant, got one without") != std::string::npos) << none.err;
    const Outcome other = lapidary("cut " + kPebble + " --draft-kind mtp --draft-model " + kPebble + "-dflash -o " + alone.path("other"));
    expect(other.status == 2_i && other.err.find("expected a drafter of this kind") != std::string::npos) << other.err;
  };

  "a gem reads files of what its model perceives, and needs no libraries for others"_test = [] {
    const std::string look = "generate 'What is in this picture?' --temperature 0 --image " + kRoot + "/models/examples/shapes.png";
    expect(pebble_beside().run(look).out == "A yellow diamond and a white diamond.\n") << pebble_beside().run(look).err;
    const std::string twelve_frames = pebble_beside().run("generate hi --context 64 --video " + kFixtures + "/media/shades.avi").err;
    expect(twelve_frames == "[context] expected at most 64 tokens, got 843\n") << twelve_frames;
    const auto needs = [](const Gem& gem, const char* library) { return read_all(gem.path()).find(library) != std::string::npos; };
    expect(needs(pebble_beside(), "libgif.so") && !needs(pebble_beside(), "libsndfile.so")) << "it sees, but does not hear";
    expect(!needs(text_only(), "libgif.so") && !needs(text_only(), "libsndfile.so"));
  };

  "other commands of a gem work"_test = [] {
    pebble_beside().write("in", "What is the capital of Norway?\n/retry\nSpell the word garden.\n");
    const std::string chat = "chat --temperature 0 <" + pebble_beside().path("in");
    expect(pebble_beside().run(chat).out == lapidary(chat).out && pebble_beside().run(chat).out.size() > 50u);
    for (const char* command : {"inspect --graph", "completions bash", "man", "bench -p 8 -n 4", "serve --help"}) {
      const Outcome run = pebble_beside().run(command);
      expect(run.status == 0_i && run.out.size() > 50u) << command << run.err;
    }
  };

  "a gem fetches nothing"_test = [] {
    const Outcome run = pebble_beside().run("serve --check-config --allow-media-from a.example");
    expect(run.status == 2_i && run.err.starts_with("[--allow-media-from] expected nothing, this program was cut")) << run.err;
    expect(read_all(pebble_beside().path()).find("libcurl") == std::string::npos);
  };

  "schema and tokenizer are those of the stock program"_test = [] {
    const std::string schema = "generate 'Give me JSON' -n 40 --temperature 0 --json-schema '{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":3}'";
    expect(pebble_beside().run(schema).out == lapidary(schema).out && !pebble_beside().run(schema).out.empty());
    const std::string text = "tokenize 'A fox, <|turn>3 \xf0\x9f\xa6\x8a and\n\n\xff'";
    expect(pebble_beside().run(text).out == lapidary(text).out && pebble_beside().run(text).out.size() > 10u);
  };

  "what was given when it was cut holds unless something else is said"_test = [] {
    const Gem gem(kPebble + " --weights mapped --temperature 0 --max-tokens 5 --context 64 --draft-kind none");
    const Outcome brief = gem.run("generate hi");
    expect(brief.err.find("after 5 tokens") != std::string::npos) << brief.err;
    expect(gem.run("generate story --temperature 0 -n 3").err.find("after 3 tokens") != std::string::npos);
    const std::string told = gem.run("inspect").out;
    for (const char* part : {"memory for 64 tokens, prompt chunks of 256", "--temperature 0", "--max-tokens 5", "compiled by", "config.json", kPebble.c_str()})
      expect(told.find(part) != std::string::npos) << part;
    // Nothing is left to repack, with and without its drafters.
    for (const char* drafts : {"auto", "mtp", "dflash", "none"})
      expect(pebble_fast().run(std::string("inspect --draft-kind ") + drafts).out.find("repacked       0 bytes") != std::string::npos) << drafts;
    expect(gem.run("inspect --json").out.find("\"cut\"") != std::string::npos);
    expect(told.find("vision tower") != std::string::npos && told.find("missing") == std::string::npos) << "it carries its tower";
  };

  "a gem takes no other model"_test = [] {
    const Outcome other = pebble_beside().run("generate hi --model " + kPebble);
    expect(other.status == 2_i && other.err.starts_with("[--model] expected nothing, this program was cut for")) << other.err;
    const Outcome assistant = pebble_beside().run("generate hi --draft-model " + kPebble + "-assistant");
    expect(assistant.status == 2_i && assistant.err.find("cut with its drafters") != std::string::npos) << assistant.err;
    expect(shell("LAPIDARY_MODEL=/nowhere " + pebble_beside().path() + " generate story --temperature 0 -n 2").status == 0_i);
    expect(pebble_beside().run("list").status == 2_i);
  };

  "the payload of another gem, a damaged one and none are refused"_test = [] {
    const auto refused = [](const Gem& gem, const char* why) {
      const Outcome outcome = gem.run("generate story --temperature 0 -n 2");
      expect(outcome.status == 1_i && outcome.out.empty() && outcome.err.find(why) != std::string::npos) << why << outcome.err;
    };
    const Gem gem(kPebble + " --weights beside");
    const std::string whole = read_all(gem.payload());
    fs::copy_file(text_only().payload(), gem.payload(), fs::copy_options::overwrite_existing);
    refused(gem, "expected the one of this program, got another's");
    gem.write("gem.weights", whole.substr(0, whole.size() - 1));
    refused(gem, "expected at the end of the file, got none");
    gem.write("gem.weights", whole.substr(65536));
    refused(gem, "bytes, got less");
    gem.write("gem.weights", whole);
    flip_byte(gem.payload(), whole.size() - 120);  // behind the tables: a part that only --verify reads
    expect(gem.run("inspect --verify").status == 1_i);
    gem.write("gem.weights", whole);
    flip_byte(gem.payload(), 1000);  // a weight
    const Outcome verified = gem.run("inspect --verify");
    expect(verified.status == 1_i && verified.err.find("damaged: SHA-256, expected ") != std::string::npos) << verified.err;
    gem.write("gem.weights", whole);
    expect(gem.run("inspect --verify").status == 0_i);
    // Every block of tables is whole or refused.
    int found = 0;
    for (std::size_t at = whole.size() * 9 / 10; at < whole.size() - 4096; at += whole.size() / 40) {
      gem.write("gem.weights", whole);
      flip_byte(gem.payload(), at);
      found += gem.run("generate story --temperature 0 -n 2 --json-schema '{\"type\":\"integer\"}'").status == 1;
    }
    expect(found >= 1_i);
    fs::remove(gem.payload());
    refused(gem, "cannot be opened");
  };

  "weights that are used where they lie must stay what they were"_test = [] {
    const TemporaryFolder copy;
    fs::copy(kPebble, copy.path("pebble"));
    const Gem gem(copy.path("pebble") + " --weights mapped --draft-kind none");
    expect(gem.run("generate story --temperature 0 -n 2").status == 0_i);
    flip_byte(copy.path("pebble/model.safetensors"), 5000);
    const Outcome changed = gem.run("generate story --temperature 0 -n 2");
    expect(changed.status == 1_i && changed.err.find("expected the file that this program was cut for, got another") != std::string::npos) << changed.err;
    flip_byte(copy.path("pebble/model.safetensors"), 5000);
    flip_byte(copy.path("pebble/model.safetensors"), 5'000'003);  // between the samples
    expect(gem.run("generate story --temperature 0 -n 2").status == 0_i);
    const Outcome verified = gem.run("inspect --verify");
    expect(verified.status == 1_i && verified.err.find("model.safetensors] damaged: SHA-256, expected that of the file") != std::string::npos) << verified.err;
  };

  "cutting says what is missing, and leaves nothing half-written"_test = [] {
    const TemporaryFolder folder;
    const Outcome compiler = lapidary("cut " + kPebble + " --compiler no-such-compiler -o " + folder.path("gem"));
    expect(compiler.status == 1_i && compiler.err.find("expected to run no-such-compiler, got: No such file") != std::string::npos) << compiler.err;
    const Outcome nowhere = lapidary("cut " + kPebble + " --weights embed -o " + folder.path("none/gem"));
    expect(nowhere.status == 1_i && nowhere.err.find("cannot be written: No such file or directory") != std::string::npos) << nowhere.err;
    if (kSlowBuild) return;  // sanitized programs are larger than the model, which is what the limit is for
    Terminal full(Terminal::Script{"trap '' XFSZ; ulimit -f 16384; TMPDIR=" + folder.path() + " exec " LAPIDARY_PROGRAM " cut " + kPebble +
                                   " --weights beside -o " + folder.path("gem")});
    expect(full.status() == 1_i && full.shows("writing [#") && full.shows("\r\033[K[" + folder.path("gem"))) << "the bar is gone" << full.screen();
    expect(full.shows("cannot be written: File too large")) << full.screen();
    expect(fs::is_empty(folder.path()));
  };

  "a terminal shows what is being cut and a bar, and only the outcome afterwards"_test = [] {
    const TemporaryFolder folder;
    Terminal terminal("cut " + kFixtures + "/models/moe-4bit -o " + folder.path("gem"));
    expect(terminal.status() == 0_i);
    std::string shown;
    for (const char* stage : {"checkpoint", "hashes", "tables", "code"}) shown += std::string("\rcutting: ") + stage + "\033[K";
    expect(terminal.screen().starts_with(shown + "\rwriting [")) << terminal.screen();
    expect(terminal.shows("writing [####################] 576.0 KiB of 576.0 KiB\033[K\r\033[K" + folder.path("gem") + ": program ")) << terminal.screen();
  };

  "the kernels of a round are listed"_test = [] {
    const std::string kernels = lapidary("cut " + kPebble + " --numeric fast --list-kernels").out;
    expect(kernels.find("linear_q8 affine4/64") != std::string::npos) << kernels;
  };
};

}  // namespace
}  // namespace lapidary::test::cut_test
