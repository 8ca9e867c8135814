// Pictures, sounds and videos at the command line: where they come from and where in the messages they go.
#include <boost/ut.hpp>

#include "cli/media.hpp"
#include "support/program.hpp"
#include "support/slow_build.hpp"
#include "text/base64.hpp"

namespace lapidary::test::media_test {
namespace {

using namespace boost::ut;
using cli::MediaFlags, cli::MediaMessages, cli::MediaReader, cli::read_media;
using text::Value;

const std::string kExamples = kRoot + "/models/examples/";
const std::string kGreedy = " --temperature 0 --threads 1 --numeric exact ";
const std::string kShapes = "'What is in this picture?'", kShapesText = "A yellow diamond and a white diamond.\n";

Value json(const std::string& text) { return text::parse_json(text, "json"); }

// The messages, and behind each "|" the bytes of a file.
std::string told(const MediaMessages& asked) {
  std::string all = text::to_json(asked.messages);
  for (const auto& file : asked.media) all += "|" + file->bytes;
  return all;
}

std::string told(const std::string& messages, const MediaFlags& flags = {}) {
  MediaReader reader;
  try {
    return told(read_media(json(messages), flags, reader));
  } catch (const Error& error) {
    return error.message();
  }
}

std::string said(const std::string& content) { return R"([{"role":"user","content":)" + content + "}]"; }

const suite<"media in messages"> media_in_messages = [] {
  "files of flags go before the text, or to the marks"_test = [] {
    const TemporaryFolder folder;
    for (const char* name : {"a", "b", "c"}) folder.write(name, std::string("bytes of ") + name);
    MediaFlags one, two, mixed;
    one.files[0] = {folder.path("a")};
    two.files[0] = {folder.path("a"), folder.path("b")};
    mixed.files = {{{folder.path("a")}, {folder.path("b")}, {folder.path("c")}}};
    expect(told(said("\"hi\""), one) == said(R"([{"type":"image"},{"type":"text","text":"hi"}])") + "|bytes of a");
    expect(told(said("\"<image>Is it <image>?\""), two) ==
           said(R"([{"type":"image"},{"type":"text","text":"Is it "},{"type":"image"},{"type":"text","text":"?"}])") + "|bytes of a|bytes of b");
    expect(told(said("\"<image>\""), one) == said(R"([{"type":"image"}])") + "|bytes of a");
    expect(told(said("\"hear <audio> and\""), mixed) ==
           said(R"([{"type":"image"},{"type":"video"},{"type":"text","text":"hear "},{"type":"audio"},{"type":"text","text":" and"}])") +
               "|bytes of a|bytes of c|bytes of b");
    expect(told(said(R"([{"type":"text","text":"x"},{"type":"image"}])"), one) == said(R"([{"type":"text","text":"x"},{"type":"image"}])") + "|bytes of a")
        << "a part without a source is a mark";
    const std::string talk = R"([{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}])";
    expect(told(talk, one) == R"([{"role":"user","content":"one"},{"role":"assistant","content":"two"},)"
                              R"({"role":"user","content":[{"type":"image"},{"type":"text","text":"three"}]}]|bytes of a)");
  };

  "marks without files are text"_test = [] {
    MediaFlags image;
    const TemporaryFolder folder;
    folder.write("a", "a");
    image.files[0] = {folder.path("a")};
    expect(told(said("\"what is <image>?\"")) == said("\"what is <image>?\""));
    expect(told(said("\"<audio>\""), image) == said(R"([{"type":"image"},{"type":"text","text":"<audio>"}])") + "|a");
  };

  "parts bring their own files, in every form"_test = [] {
    const TemporaryFolder folder;
    folder.write("a b.png", "foo");
    const std::string path = folder.path("a b.png"), bare = said(R"([{"type":"image"},{"type":"text","text":"x"}])") + "|foo";
    std::string escaped = path;
    escaped.replace(escaped.find(' '), 1, "%20");
    for (const std::string& part : {R"({"type":"image","image":")" + path + "\"}", R"({"type":"image_url","image_url":{"url":")" + path + "\"}}",
                                    R"({"type":"image_url","image_url":")" + path + "\"}", R"({"type":"image","image":"file://)" + escaped + "\"}",
                                    std::string(R"({"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9v"}})")})
      expect(told(said("[" + part + R"(,{"type":"text","text":"x"}])")) == bare) << part;
    expect(told(said(R"([{"type":"input_audio","input_audio":{"data":"Zm9v","format":"wav"}},{"type":"video","video":")" + path + "\"}]")) ==
           said(R"([{"type":"audio"},{"type":"video"}])") + "|foo|foo");
  };

  "a file is read once"_test = [] {
    const TemporaryFolder folder;
    folder.write("a", "before");
    MediaReader reader;
    const Value twice = json(said(R"([{"type":"image","image":")" + folder.path("a") + R"("},{"type":"image","image":")" + folder.path("a") + "\"}]"));
    const MediaMessages first = read_media(twice, {}, reader);
    folder.write("a", "after");
    expect(read_media(twice, {}, reader).media.back() == first.media.front());
  };

  "paths are made to hold in every folder"_test = [] {
    const Value messages = json(said(R"([{"type":"image","image":"a.png"},{"type":"image_url","image_url":{"url":"/b.png"}},{"type":"audio","audio":"data:;base64,"},{"type":"text","text":"a.png"}])"));
    expect(text::to_json(cli::with_absolute_paths(messages, "/some/where")) ==
           said(R"([{"type":"image","image":"/some/where/a.png"},{"type":"image","image":"/b.png"},{"type":"audio","audio":"data:;base64,"},{"type":"text","text":"a.png"}])"));
  };

  "what is wrong is said with its flag or its place"_test = [] {
    MediaFlags one, none;
    one.files[0] = {"/nowhere.png"};
    expect(told(said("\"x\""), one) == "[--image /nowhere.png] cannot be read: No such file or directory");
    expect(told(said("\"<image> <image>\""), one) == "[--image] expected 2, one for each <image>, got 1");
    expect(told(R"([{"role":"system","content":"x"}])", one) == "[--image] expected a message of the user to go with, got none");
    expect(told(said(R"([{"type":"image","image":"https://host/a.png"}])")) ==
           "[https://host/a.png] expected a file, as nothing is fetched from the network, got https://host/a.png");
    expect(told(said(R"([{"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9"}}])")) ==
           "[messages[0].content[0]] address, expected data:TYPE;base64, and base 64 behind it, got another");
    expect(told(said(R"([{"type":"image","image":7}])")) ==
           "[messages] messages[0].content[0].image, expected a file, an object with url or one with data, got another");
  };
};

const suite<"lapidary generate with media"> generate_with_media = [] {
  "answers pebble's recorded questions about pictures as recorded"_test = [] {
    const Value golden = json(read_all(kRoot + "/models/pebble/golden.json"));
    int pictures = 0;
    for (const Value& entry : *golden.array()) {
      const Value* images = entry.find("images");
      if (!images || (kSlowBuild && pictures == 2)) continue;
      std::string flags;
      for (const Value& image : *images->array()) flags += "--image " + kExamples + *image.string() + " ";
      const Outcome run = lapidary("generate" + kGreedy + "--json -n " + std::to_string(entry.find("greedy")->array()->size()) + " " + flags + "'" + *entry.find("prompt")->string() + "'");
      expect(fatal(run.status == 0)) << run.err;
      const Value result = json(run.out);
      Value::Array expected = *entry.find("greedy")->array();
      if (*result.find("stop_reason") == Value("stop")) expected.pop_back();  // what ended it
      expect(*result.find("ids")->array() == expected) << run.out;
      expect(result.find("stats")->find("prompt_tokens")->integer() &&
             *result.find("stats")->find("prompt_tokens")->integer() == static_cast<std::int64_t>(entry.find("input_ids")->array()->size()));
      ++pictures;
    }
    expect(pictures == (kSlowBuild ? 2 : 8));
  };

  "takes them from messages, as paths beside the file and as data"_test = [] {
    const TemporaryFolder folder;
    std::filesystem::copy_file(kExamples + "shapes.png", folder.path("shapes.png"));
    const std::string data = text::to_base64(read_all(kExamples + "shapes.png"));
    for (const std::string& part : {std::string(R"({"type":"image","image":"shapes.png"})"), R"({"type":"image_url","image_url":{"url":"data:image/png;base64,)" + data + "\"}}"}) {
      folder.write("messages.json", said("[" + part + R"(,{"type":"text","text":"What is in this picture?"}])"));
      const Outcome run = lapidary("generate" + kGreedy + "--messages " + folder.path("messages.json"));
      expect(run.out == kShapesText) << run.err << run.out;
    }
  };

  "gives a picture as many tokens as it is told to"_test = [] {
    const auto prompt_tokens = [](const std::string& flags) {
      const Outcome run = lapidary("generate" + kGreedy + "--json -n 1 --image " + kExamples + "shapes.png " + flags + " hi");
      expect(fatal(run.status == 0)) << run.err;
      return *json(run.out).find("stats")->find("prompt_tokens")->integer();
    };
    const std::int64_t usual = prompt_tokens("");
    expect(prompt_tokens("--image-tokens 70") == usual);
    expect(prompt_tokens("--image-tokens 140") > usual + 50);
    const Outcome other = lapidary("generate --image-tokens 71 hi");
    expect(other.status == 2_i && other.err.find("[--image-tokens] expected one of 70, 140, 280, 560, 1120, got '71'") != std::string::npos) << other.err;
  };

  if (!kSlowBuild) "watches a video, frame by frame"_test = [] {
    const Outcome run = lapidary("generate" + kGreedy + "--json -n 1 --video " + kFixtures + "/media/shades.avi 'What is in this video?'");
    expect(fatal(run.status == 0)) << run.err;
    expect(*json(run.out).find("stats")->find("prompt_tokens")->integer() > 12 * 50) << "twelve frames" << run.out;
  };

  "says what is wrong before the model is loaded, or which model it takes"_test = [] {
    for (const auto& [flags, status, mentions] : std::vector<std::tuple<std::string, int, std::string>>{
             {"--image /nowhere.png --model /nowhere hi", 1, "[--image /nowhere.png] cannot be read"},
             {"--image " + kRoot + "/README.md hi", 1, "/README.md] format, expected one of PNG"},
             {"--audio " + kFixtures + "/audio/pcm16.wav hi", 1, "model, expected one that hears, got pebble"},
             {"--image " + kExamples + "word.png 'Is <image> or <image>?'", 2, "[--image] expected 2, one for each <image>, got 1"},
             {"--raw --image " + kExamples + "word.png hi", 2, "--image"}}) {
      const Outcome run = lapidary("generate " + flags);
      expect(run.status == status && run.out.empty() && run.err.find(mentions) != std::string::npos) << flags << run.status << run.err;
    }
  };
};

const suite<"lapidary chat with media"> chat_with_media = [] {
  "a picture goes with the next message, and stays in the conversation"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "/image " + kExamples + "shapes.png\nWhat is in this picture?\n/retry\n/save " + folder.path("saved") +
                           "\n/undo\n/load " + folder.path("saved") + "\n/undo\n/image " + kExamples + "word.png\nRead the text.\n");
    const Outcome run = lapidary("chat" + kGreedy + "-n 30 <" + folder.path("in"));
    expect(run.status == 0_i) << run.err;
    expect(run.out == kShapesText + kShapesText + "EAST\n") << run.out;
    expect(run.err.find("shapes.png goes with the next message") != std::string::npos && run.err.find("forgot: What is in this picture?") != std::string::npos) << run.err;
    expect(read_all(folder.path("saved")).find(R"({"type":"image","image":")" + kExamples + "shapes.png\"}") != std::string::npos);
  };

  "a file that is none is told of at once"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "/image\n/image /nowhere.png\n/image " + kRoot + "/README.md\nSpell the word garden.\n");
    const Outcome run = lapidary("chat" + kGreedy + "<" + folder.path("in"));
    expect(run.status == 1_i && run.out == "G-A-R-D-E-N.\n") << run.out;
    for (const char* part : {"[/image] expected a file, got none", "[/nowhere.png] cannot be read", "README.md] format, expected one of PNG"})
      expect(run.err.find(part) != std::string::npos) << part << run.err;
  };
};

}  // namespace
}  // namespace lapidary::test::media_test
