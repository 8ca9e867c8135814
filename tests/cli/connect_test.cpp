// lapidary chat --connect: the same conversation with a server as with a model that is loaded here.
#include <boost/ut.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>

#include "support/program.hpp"
#include "text/value.hpp"

namespace lapidary::test::connect_test {
namespace {

using namespace boost::ut;

bool comes_true(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition())
    if (std::chrono::steady_clock::now() > end) return false;
    else usleep(5'000);
  return true;
}

// The program beside the test.
class Child {
 public:
  // `arguments` go through the shell; files "out" and "err" of the folder get what it writes.
  Child(const TemporaryFolder& folder, const std::string& arguments) : out_(folder.path("out")), err_(folder.path("err")) {
    const std::string line = std::string("exec ") + LAPIDARY_PROGRAM + " " + arguments + " >" + out_ + " 2>" + err_;
    child_ = fork();
    if (child_ == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
  }
  ~Child() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void send(int signal) const { kill(child_, signal); }
  std::string out() const { return read_all(out_); }
  std::string err() const { return read_all(err_); }
  // The exit status, or -1 when a signal ended it.
  int status() {
    int status = 0;
    waitpid(std::exchange(child_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const std::string out_, err_;
  pid_t child_ = 0;
};

class Server {
 public:
  explicit Server(const std::string& arguments = "")
      : child_(folder_, "serve --threads 1 --unix " + folder_.path("socket") + " " + arguments) {
    expect(fatal(comes_true([&] { return child_.err().find("listening on") != std::string::npos; }))) << child_.err();
  }
  std::string connect() const { return " --connect unix:" + folder_.path("socket") + " "; }
  Child& child() { return child_; }

 private:
  const TemporaryFolder folder_;
  Child child_;
};

Outcome chat(const std::string& flags, const std::string& input) {
  const TemporaryFolder folder;
  folder.write("in", input);
  return lapidary("chat " + flags + " <" + folder.path("in"));
}

constexpr const char* kTools = R"([{"type":"function","function":{"name":"get_weather","description":"Get the current weather",
  "parameters":{"type":"object","properties":{"location":{"type":"string","description":"City name"}},"required":["location"]}}}])";
const std::string kLocal = "--threads 1 ", kGreedy = "--temperature 0 ";
// Goes on until the context is full.
const std::string kEndless = "--temperature 1 --seed 1 --logit-bias 1=-100 --logit-bias 6=-100 --logit-bias 14=-100 ";

const suite<"lapidary chat --connect"> connect = [] {
  "answers are those of a model that is loaded here, turn after turn"_test = [] {
    const Server server;
    const TemporaryFolder folder;
    folder.write("tools", kTools);
    const std::string talk = "What is the capital of Norway?\nSpell the word garden.\n/retry\n/undo\nAnd of Peru?\n/system Be brief.\n"
                             "What is the capital\\\nof Norway?\n/think\nList three nouns.\n/think off\n";
    const std::string calls = "/tools " + folder.path("tools") + "\nWhat is the weather in Oslo?\nAnd now?\n/tools off\n/undo\n/undo\n/undo\n";
    const std::string formats = "/schema {\"enum\":[\"yes\"]}\nIs it?\n/schema off\n/unknown\n/reset\nSpell the word garden.\n";
    for (const std::string& flags : {kGreedy + "-n 100", std::string("-n 100 --seed 7 "),
                                     std::string("-n 100 --seed 18446744073709551615 --temperature 1.1 --top-k 20 --top-p 0.9 --min-p 0.01 --repetition-penalty "
                                                 "1.2 --presence-penalty 0.1 --frequency-penalty 0.3 --logit-bias 300=2.5 --stop ' is' --stop x")}) {
      const Outcome local = chat(kLocal + flags, talk + calls + formats), remote = chat(server.connect() + flags, talk + calls + formats);
      expect(remote.out == local.out && !local.out.empty()) << flags << "\n" << remote.out << "\n" << local.out;
      expect(remote.err == local.err && remote.status == local.status) << flags << "\n" << remote.err << "\n" << local.err;
    }
    const Outcome short_here = chat(kLocal + kGreedy + "-n 3", talk), short_there = chat(server.connect() + kGreedy + "-n 3", talk);
    expect(short_there.out == short_here.out && short_there.err == short_here.err) << short_there.err << short_here.err;
    expect(short_here.err.find("[--max-tokens] the answer was cut short after 3 tokens\n") != std::string::npos);
    const Outcome call = chat(server.connect() + kGreedy + "-n 100", calls);
    expect(call.out.starts_with(R"({"name":"get_weather","arguments":{"location":"Oslo"}})")) << call.out;
    const std::string pictures = "/image " + kRoot + "/models/examples/shapes.png\nWhat is in this picture?\nWhat colour is the left one?\n/image " + kRoot +
                                 "/models/examples/word.png\nRead the text.\n";
    const Outcome seen = chat(server.connect() + kGreedy + "-n 20", pictures), seen_here = chat(kLocal + kGreedy + "-n 20", pictures);
    expect(seen.out == seen_here.out && seen.err == seen_here.err && seen.out.starts_with("A yellow diamond and a white diamond.\n")) << seen.out << seen.err << seen_here.err;
    const Outcome video = chat(server.connect(), "/video " + kRoot + "/README.md\n");
    expect(video.status == 1_i && video.err.find("expected a picture or a sound with --connect, got a video") != std::string::npos) << video.err;
    const Outcome json = chat(server.connect() + kGreedy + "-n 100 --json-mode", "List three nouns.\n");
    expect(json.out == chat(kLocal + kGreedy + "-n 100 --json-mode", "List three nouns.\n").out) << json.out;
  };

  "a conversation is saved and gone on with, here or there"_test = [] {
    const Server server;
    const TemporaryFolder folder;
    folder.write("tools", kTools);
    const auto saving = [&](const char* name) {
      return "/tools " + folder.path("tools") + "\nWhat is the weather in Oslo?\nThank you.\n/save " + folder.path(name) + "\n";
    };
    expect(chat(server.connect() + kGreedy, saving("there")).status == 0_i && chat(kLocal + kGreedy, saving("here")).status == 0_i);
    expect(read_all(folder.path("there")) == read_all(folder.path("here")) && read_all(folder.path("here")).find("get_weather") != std::string::npos);
    const std::string loading = "/load " + folder.path("here") + "\nSpell the word garden.\n";
    expect(chat(server.connect() + kGreedy, loading).out == chat(kLocal + kGreedy, loading).out);
    folder.write("broken", "[{\"role\":\"nobody\"}]");
    const std::string broken = "/load " + folder.path("broken") + "\n";
    expect(chat(server.connect(), broken).err == chat(kLocal, broken).err);
  };

  "a thought is folded, a limit is said, and statistics come from the server"_test = [] {
    const Server server("--context 300");
    const Outcome stats = chat(server.connect() + kGreedy + "--stats --seed 5", "What is the capital of Norway?\nSpell the word garden.\n");
    for (const char* piece : {" tokens (0 reused), ", "\ndecode ", "stop: stop, seed 5\n", "\ndrafts "})
      expect(stats.err.find(piece) != std::string::npos) << piece << "\n" << stats.err;
    expect(stats.err.find("(0 reused)") == stats.err.rfind("(0 reused)")) << "the second turn finds the first\n" << stats.err;
    const std::string think = kGreedy + "--think ";
    const Outcome shown = chat(server.connect() + think, "List three nouns.\n"), folded = chat(server.connect() + think + "--thoughts fold", "List three nouns.\n");
    expect(!shown.err.empty() && folded.err == "(thought)\n" && folded.out == shown.out) << folded.err;
    const Outcome full = chat(server.connect() + kEndless, "Tell me a story.\n");
    expect(full.status == 0_i);
    expect(full.err == "[--context] the answer was cut short: its 300 tokens are used up; /reset starts again, --context of the server makes room for more\n")
        << full.err;
  };

  "what the server refuses is said as it says it, and the conversation goes on"_test = [] {
    const Server server("--context 100");
    const Outcome hot = chat(server.connect() + "--temperature 3", "hi\n/stats\n");
    expect(hot.status == 1_i && hot.err == "[temperature] expected a number from 0 to 2, got 3.0\nstatistics are on\n") << hot.err;
    std::string words;
    for (int i = 0; i < 200; ++i) words += "garden ";
    const Outcome large = chat(server.connect() + kGreedy, words + "\nSpell the word garden.\n");
    expect(large.status == 1_i && large.err.starts_with("[prompt] expected at most 99 tokens") && large.out == "G-A-R-D-E-N.\n") << large.err << large.out;
    const TemporaryFolder folder;
    folder.write("tools", R"([{"type":"function","function":{"name":"two words"}}])");
    const Outcome tools = chat(server.connect(), "/tools " + folder.path("tools") + "\nhi\n");
    expect(tools.err == "tools are on\n[tools[0].function.name] expected 1 to 64 letters, digits, _ and -, got \"two words\"\n") << tools.err;
  };

  "a server that is not there, or takes another key, is an error"_test = [] {
    const TemporaryFolder folder;
    const std::string nobody = "unix:" + folder.path("socket");
    const Outcome gone = chat("--connect " + nobody, "hi\n");
    expect(gone.status == 1_i && gone.err == "[" + nobody + "] cannot be reached: No such file or directory\n") << gone.err;
    const Outcome refused = chat("--connect http://127.0.0.1:1", "hi\n");
    expect(refused.status == 1_i && refused.err == "[http://127.0.0.1:1] cannot be reached: Connection refused\n") << refused.err;
    const Outcome long_path = chat("--connect unix:/" + std::string(200, 'x'), "hi\n");
    expect(long_path.status == 1_i && long_path.err.find("cannot be reached: File name too long") != std::string::npos) << long_path.err;

    setenv("LAPIDARY_API_KEY", "right", 1);
    const Server server;
    const std::string talk = "Spell the word garden.\n";
    expect(chat(server.connect() + kGreedy, talk).out == "G-A-R-D-E-N.\n");
    for (const char* key : {"wrong", ""}) {
      setenv("LAPIDARY_API_KEY", key, 1);
      const Outcome run = chat(server.connect(), talk);
      expect(run.status == 1_i && run.out.empty() && run.err.starts_with("[") && run.err.find("key") != std::string::npos) << run.err;
      expect(run.err.find("wrong") == std::string::npos) << run.err;
    }
    unsetenv("LAPIDARY_API_KEY");
  };

  "flags of a model have no place there, unless they were set for all commands"_test = [] {
    for (const char* flag : {"--model x", "-c 64", "--threads 2", "--draft-kind none", "--memory 1G", "--warm-up", "--verbose"}) {
      const Outcome run = chat(std::string("--connect unix:nowhere ") + flag, "");
      expect(run.status == 2_i && run.err.find("] expected none with --connect, as it is the server's to say, got one\n") != std::string::npos)
          << flag << run.err;
    }
    expect(chat("--connect unix:nowhere -c 64", "").err.starts_with("[--context]"));
    expect(chat("--connect https://localhost", "").status == 2_i);
    const Server server;
    setenv("LAPIDARY_CONTEXT", "64", 1);
    expect(chat(server.connect() + "--quiet", "").status == 0_i);
    unsetenv("LAPIDARY_CONTEXT");
  };

  "a server that dies in the middle of an answer is an error, and what had come stays"_test = [] {
    Server server("--context 8000");
    const TemporaryFolder folder;
    folder.write("in", "Tell me a story.\n/save " + folder.path("saved") + "\n");
    Child client(folder, "chat " + kEndless + server.connect() + "<" + folder.path("in"));
    expect(comes_true([&] { return !client.out().empty(); }));
    server.child().send(SIGKILL);
    expect(client.status() == 1_i);
    expect(client.err().find("] broke off, expected the end of the answer, got: ") != std::string::npos) << client.err();
    expect(client.out().ends_with('\n') && client.out().size() > 1u);
    expect(read_all(folder.path("saved")) == "[]\n") << "half an answer is none";
  };

  "Ctrl-C stops an answer, and the conversation goes on"_test = [] {
    Server server("--context 8000 --sessions 1");
    const TemporaryFolder folder;
    folder.write("in", "Tell me a story.\n/save " + folder.path("saved") + "\n/reset\nTell me another.\n");
    Child client(folder, "chat -n 7900 " + kEndless + server.connect() + "<" + folder.path("in"));
    expect(comes_true([&] { return !client.out().empty(); }));
    client.send(SIGINT);
    expect(comes_true([&] { return client.err().find("starts again") != std::string::npos; })) << client.err();
    const auto saved = text::parse_json(read_all(folder.path("saved")), "saved");
    expect(fatal(saved.array() && saved.array()->size() == 2u));
    expect(client.out().starts_with(*saved.array()->back().find("content")->string() + "\n")) << "what was printed is kept";
    const std::size_t first = client.out().size();
    expect(comes_true([&] { return client.out().size() > first; }));
    client.send(SIGINT);
    expect(client.status() == 0_i) << client.err();
    expect(chat(server.connect() + kGreedy, "Spell the word garden.\n").out == "G-A-R-D-E-N.\n") << "the only session is free again";
  };
};

}  // namespace
}  // namespace lapidary::test::connect_test
