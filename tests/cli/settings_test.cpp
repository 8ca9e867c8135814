// Settings for all commands: from the environment and from a file.
#include <boost/ut.hpp>

#include "support/program.hpp"

namespace lapidary::test::settings_test {
namespace {

using namespace boost::ut;

Outcome with(const std::string& variables, const std::string& arguments) {
  return shell("env -u LAPIDARY_CONFIG XDG_CONFIG_HOME=/dev/null " + variables + " " + LAPIDARY_PROGRAM + " " + arguments);
}

const suite<"settings"> settings = [] {
  const std::string pebble = kRoot + "/models/pebble";
  const auto memory_of = [](const Outcome& run) {
    const std::size_t at = run.out.find("memory for ");
    return at == std::string::npos ? run.err : run.out.substr(at + 11, run.out.find(' ', at + 11) - at - 11);
  };

  "flags come before variables, and these before the file"_test = [=] {
    const TemporaryFolder folder;
    folder.write("config.json", R"({"context": 300, "model": ")" + pebble + R"(", "temperature": 0})");
    const std::string file = "LAPIDARY_CONFIG=" + folder.path("config.json") + " ";
    expect(memory_of(with(file, "inspect")) == "300");
    expect(memory_of(with(file + "LAPIDARY_CONTEXT=400", "inspect")) == "400");
    expect(memory_of(with(file + "LAPIDARY_CONTEXT=400", "inspect --context 500")) == "500");
    expect(memory_of(with("", "inspect " + pebble)) == "4096");
    expect(with(file, "generate --threads 1 'What is the capital of Norway?'").out == "The capital of Norway is Oslo.\n");
  };

  "the file lies where such files do"_test = [=] {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.path("lapidary"));
    folder.write("lapidary/config.json", R"({"context": 300})");
    expect(memory_of(with("XDG_CONFIG_HOME=" + folder.path(""), "inspect " + pebble)) == "300");
  };

  "what is wrong in them is said"_test = [=] {
    const TemporaryFolder folder;
    const auto says = [&](const std::string& variables, const char* words) {
      const Outcome run = with(variables, "inspect " + pebble);
      expect(run.status != 0 && run.err.find(words) != std::string::npos) << variables << run.err;
    };
    const std::string file = "LAPIDARY_CONFIG=" + folder.path("config.json");
    says("LAPIDARY_CONTEXT=many", "many");
    says(file, "config.json");
    folder.write("config.json", R"({"contxt": 3})");
    says(file, "settings, expected among model, context, ");
    folder.write("config.json", R"({"context": [3]})");
    says(file, "context, expected a text or a number");
    folder.write("config.json", "[");
    says(file, "config.json]");
  };
};

}  // namespace
}  // namespace lapidary::test::settings_test
