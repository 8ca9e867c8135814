// lapidary tokenize, there and back.
#include <boost/ut.hpp>

#include "support/program.hpp"

namespace lapidary::test::tokenize_test {
namespace {

using namespace boost::ut;

const suite<"lapidary tokenize"> tokenize = [] {
  boost::ut::test("prints ids on one line") = [] {
    expect(lapidary("tokenize '<|turn>user\nHi'").out == "5 4023 24 8149 8112\n");
    expect(lapidary("tokenize ''").out == "\n");
  };

  boost::ut::test("takes the names of special tokens for text when told to") = [] {
    expect(lapidary("tokenize --json '<turn|>'").out == "{\"ids\":[6],\"pieces\":[\"<turn|>\"]}\n");
    expect(lapidary("tokenize --json --no-special '<turn|>'").out ==
           "{\"ids\":[87,8108,486,8189,8181],\"pieces\":[\"<0x3C>\",\"t\",\"urn\",\"|\",\">\"]}\n");
  };

  boost::ut::test("ids give back the bytes of a file or of standard input") = [] {
    const TemporaryFolder folder;
    const std::string text = "<|turn>user\n  caf\u00e9 \U0001f999\n\n<turn|>\n";
    folder.write("text", text);
    for (const std::string& input : {"--file " + folder.path("text"), "<" + folder.path("text")}) {
      const Outcome ids = lapidary("tokenize " + input);
      expect(fatal(ids.status == 0)) << ids.err;
      folder.write("ids", ids.out);
      expect(lapidary("tokenize --decode --file " + folder.path("ids")).out == text);
      expect(lapidary("tokenize --decode --no-special <" + folder.path("ids")).out ==
             "user\n  caf\u00e9 \U0001f999\n\n\n");
    }
  };

  boost::ut::test("shows the places of a picture as one block") = [] {
    const std::string image = "--image " + kRoot + "/models/examples/shapes.png ";
    expect(lapidary("tokenize " + image + "Hi").out == "17 18*63 19 8149 8112\n");
    const Outcome json = lapidary("tokenize --json " + image + "'Hi<image>'");
    expect(json.out.starts_with("{\"ids\":[8149,8112,17,18,18,") && json.out.find("\"blocks\":[{\"kind\":\"image\",\"begin\":3,\"end\":66}]") != std::string::npos) << json.out << json.err;
    expect(lapidary("tokenize --decode " + image + "5").status == 2_i);
  };

  boost::ut::test("says what is wrong") = [] {
    const Outcome word = lapidary("tokenize --decode '6 six'"), large = lapidary("tokenize --decode 8192");
    expect(word.status == 2 && word.err.find("'six'") != std::string::npos) << word.err;
    expect(large.status == 2 && large.err.find("from 0 to 8191") != std::string::npos) << large.err;
    expect(lapidary("tokenize hi --file x").status == 2_i);
  };

  if (!kGem) boost::ut::test("takes the tokenizer of any model") = [] {
    expect(lapidary("tokenize --model " + kRoot + "/models/pebble hi").status == 0_i);
    const Outcome absent = lapidary("tokenize --model " + kRoot + "/tests hi");
    expect(absent.status == 1 && absent.err.find("tokenizer.json") != std::string::npos) << absent.err;
  };
};

}  // namespace
}  // namespace lapidary::test::tokenize_test
