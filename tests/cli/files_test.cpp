// Files that are named on the command line, of whatever kind.
#include <boost/ut.hpp>

#include <sys/stat.h>

#include <array>

#include "support/program.hpp"
#include "support/slow_build.hpp"

namespace lapidary::test::files_test {
namespace {

using namespace boost::ut;

const std::string kDense = kFixtures + "/models/dense-bf16";

const suite<"files that are written"> written_files = [] {
  if (!kGem) "a link, a pipe and a device stay what they are"_test = [] {
    const TemporaryFolder folder;
    folder.write("ids.json", "[[1,2,3]]");
    folder.write("old", "old");
    mkfifo(folder.path("pipe").c_str(), 0600);
    const auto link_to = [&](const std::string& target) {
      std::filesystem::remove(folder.path("link"));
      std::filesystem::create_symlink(target, folder.path("link"));
    };
    const auto is_link = [&] { return std::filesystem::is_symlink(folder.path("link")); };
    for (const std::string& command :
         {"logits " + kDense + " --ids " + folder.path("ids.json") + " -o ", "bench " + kDense + " -p 0 -n 0 --timeline "}) {
      const Outcome piped = shell("timeout 60 cat " + folder.path("pipe") + " >" + folder.path("out") + " & " + kProgram + " " +
                                  command + folder.path("pipe") + " && wait");
      expect(piped.status == 0_i && std::filesystem::is_fifo(folder.path("pipe"))) << piped.err;
      expect(read_all(folder.path("out")).size() > 100u);

      for (const char* target : {"old", "new"}) {
        link_to(folder.path(target));
        expect(lapidary(command + folder.path("link")).status == 0_i);
        expect(is_link() && read_all(folder.path(target)).size() > 100u) << target;
      }
      folder.write("old", "old");
      std::filesystem::remove(folder.path("new"));

      link_to("/dev/full");
      const Outcome full = lapidary(command + folder.path("link"));
      expect(full.status == 1_i && full.err.find("No space left") != std::string::npos && is_link()) << full.err;
    }
  };
};

const suite<"files that are read"> read_files = [] {
  "pipes and standard input do where a file does"_test = [] {
    const TemporaryFolder folder;
    folder.write("prompt", "Spell the word garden.");
    folder.write("messages", R"([{"role":"user","content":"Spell the word garden."}])");
    folder.write("tools", R"([{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}}])");
    folder.write("schema", R"({"const":"G-A-R-D-E-N."})");
    const std::string greedy = "generate --temperature 0 --threads 1 ";
    for (const auto& [flag, file, rest, answer] : std::vector<std::array<std::string, 4>>{
             {"--file", "prompt", "", "G-A-R-D-E-N.\n"},
             {"--messages", "messages", "", "G-A-R-D-E-N.\n"},
             {"--tools", "tools", "'Spell the word garden.'", "G-A-R-D-E-N.\n"},
             {"--json-schema", "schema", "'Spell the word garden.'", "\"G-A-R-D-E-N.\"\n"}})
      for (const std::string& way : {"- <" + folder.path(file), "/dev/stdin <" + folder.path(file),
                                     "<(cat " + folder.path(file) + ")", folder.path(file)}) {
        const Outcome run = shell("bash -c \"" + kProgram + " " + greedy + rest + " " + flag + " " + way + "\"");
        expect(run.status == 0_i && run.out == answer) << flag << way << run.out << run.err;
      }
    const Outcome ids = lapidary("tokenize --file - <" + folder.path("prompt"));
    expect(ids.status == 0_i && ids.out == lapidary("tokenize <" + folder.path("prompt")).out) << ids.err;
  };

  "a schema may stand on the command line"_test = [] {
    const Outcome run = lapidary(R"(generate hi --json-schema '{"const":[1,2]}')");
    expect(run.status == 0_i && run.out == "[1,2]\n") << run.out << run.err;
    const Outcome wrong = lapidary(R"(generate hi --json-schema '{"const":}')");
    expect(wrong.status == 1_i && wrong.err.starts_with("[--json-schema] ")) << wrong.err;
  };

  "input without an end is refused as soon as it cannot fit the context"_test = [] {
    const std::pair<const char*, const char*> cases[] = {{"generate", "1048576 bytes, as no text of 4096 tokens, the context, is longer, got more"},
                                                         {"generate --context 100 --file -", "25600 bytes, as no text of 100 tokens"},
                                                         {"generate --messages -", "67108864 bytes, got more"},
                                                         {"generate hi --context 10 --tools /dev/zero", "15360 bytes, as no text of 10 tokens"},
                                                         {"chat --context 100 </dev/zero", "25600 bytes, as no text of 100 tokens"},
                                                         {"generate hi --json-schema /dev/zero", "67108864 bytes, got more"}};
    for (const auto& [command, expected] : cases) {
      const Outcome run = shell(std::string(kSlowBuild ? "" : "ulimit -v 1000000; ") + "yes | " + kProgram + " " + command);
      expect(run.status == 1_i && run.err.find(std::string("expected at most ") + expected) != std::string::npos) << command << run.err;
    }
  };

  "a prompt and a file at once are refused, and so is standard input for two things"_test = [] {
    const TemporaryFolder folder;
    folder.write("prompt", "Hi");
    expect(lapidary("generate --file " + folder.path("prompt") + " text").status == 2_i);
    const Outcome twice = lapidary("generate --file - --tools - <" + folder.path("prompt"));
    expect(twice.status == 2_i && twice.err == "[standard input] expected to be read once, got two that want it\n") << twice.err;
  };

  "where JSON goes wrong is said"_test = [] {
    const TemporaryFolder folder;
    for (const auto& [json, place] : std::vector<std::pair<std::string, std::string>>{
             {"[\n  {\"role\": \"user\",\n   \"content\" \"hi\"}\n]", "line 3, column 14"},
             {"[{\"role\": \"user\", \"content\": \"hi\"}", "line 1, column 35"},
             {"", "line 1, column 1"},
             {"[1,]", "line 1, column 4"},
             {"[\"\u00e9\u00e9\", tru]", "line 1, column 8"},
             {"[01]", "line 1, column 3"},
             {"[\"a\nb\"]", "line 1, column 4"},
             {"[] []", "line 1, column 4"},
             {"{\"a\":1,}", "line 1, column 8"}}) {
      folder.write("json", json);
      for (const char* flag : {"generate --messages ", "generate hi --tools ", "generate hi --json-schema ",
                               "logits models/pebble -o /dev/null --ids "}) {
        const Outcome run = lapidary(flag + folder.path("json"));
        expect(run.status == 1_i && run.err.starts_with("[" + folder.path("json") + "] " + place + ", expected JSON, got an error: "))
            << flag << json << run.err;
      }
    }
  };

  if (!kGem) "where a config goes wrong is said"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder.path("model"));
    folder.write("model/config.json", "{\n  \"model_type\": gemma4\n}");
    const Outcome run = lapidary("inspect " + folder.path("model"));
    expect(run.status == 1_i && run.err.find("line 2, column 17, expected JSON") != std::string::npos) << run.err;
  };

  "why a file cannot be read is said"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "/save " + folder.path("no/where") + "\n");
    const Outcome saved = lapidary("chat <" + folder.path("in"));
    expect(saved.err.ends_with("cannot be written: No such file or directory\n")) << saved.err;
    const Outcome missing = lapidary("generate --file " + folder.path("missing")), directory = lapidary("generate --file " + folder.path());
    expect(missing.status == 1_i && missing.err.ends_with("cannot be read: No such file or directory\n")) << missing.err;
    expect(directory.status == 1_i && directory.err.ends_with("cannot be read: Is a directory\n")) << directory.err;
  };
};

}  // namespace
}  // namespace lapidary::test::files_test
