// lapidary chat in a pipe and on a terminal.
#include <boost/ut.hpp>

#include "support/program.hpp"
#include "support/terminal.hpp"
#include "text/value.hpp"

namespace lapidary::test::chat_test {
namespace {

using namespace boost::ut;

const std::string kGreedy = "chat --temperature 0 --threads 1 ";

const suite<"lapidary chat"> chat = [] {
  "holds a conversation in a pipe, saves it and goes on with it"_test = [] {
    const TemporaryFolder folder;
    folder.write("first", "What is the capital of Norway?\n/save " + folder.path("saved") + "\nSpell the word garden.\n");
    const Outcome run = lapidary(kGreedy + "--stats <" + folder.path("first"));
    expect(run.status == 0_i) << run.err;
    expect(run.out == "The capital of Norway is Oslo.\nG-A-R-D-E-N.\n") << run.out;
    expect(run.err.find("(0 reused)") != std::string::npos) << "the first turn is all new";
    expect(run.err.find("sha256") == std::string::npos) << "which assistant it was is for reports, not for every turn";
    const std::size_t second = run.err.rfind("reused)");
    expect(second != run.err.find("reused)") && run.err.substr(second - 3, 2) != "(0") << "the second turn is not\n" << run.err;

    const auto saved = text::parse_json(read_all(folder.path("saved")), "saved");
    expect(saved.array() && saved.array()->size() == 2u);
    folder.write("second", "/load " + folder.path("saved") + "\nSpell the word garden.\n");
    expect(lapidary(kGreedy + "<" + folder.path("second")).out == "G-A-R-D-E-N.\n");
  };

  "a wrong command or file is said and the conversation goes on"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "/nonsense\n/load " + folder.path("missing") + "\n/save " + folder.path("no/where") +
                           "\n\n/system You are terse.\n/think\n/think\n/reset\nSpell the word garden.\n/quit\nnever\n");
    const Outcome run = lapidary(kGreedy + "<" + folder.path("in"));
    expect(run.status == 1_i && run.out.find('\n') == run.out.size() - 1) << run.out;
    for (const char* piece : {"[/nonsense]", "missing]", "no/where]", "thinking is on", "thinking is off"})
      expect(run.err.find(piece) != std::string::npos) << piece << "\n" << run.err;
  };

  "commands say what they did, and take what is at the ends of a line as nothing"_test = [] {
    const TemporaryFolder folder;
    folder.write("in", "/think off\n/think on \r\n/think off\r\n/stats on\n/stats off\n/system You are terse.\n/system\n/reset \r\n"
                       "Spell the word garden.\r\n/save ~/saved\n/load ~/saved \n/quit \r\nnever\n");
    const Outcome run = shell("HOME=" + folder.path("") + " " + kProgram + " " + kGreedy + "<" + folder.path("in"));
    expect(run.status == 0_i && run.out == "G-A-R-D-E-N.\n") << run.out;
    const std::string saved = folder.path("") + "/saved";
    expect(run.err == "thinking is off\nthinking is on\nthinking is off\nstatistics are on\nstatistics are off\n"
                      "system message set; the conversation starts again\nno system message; the conversation starts again\n"
                      "the conversation starts again\nsaved 2 messages to " + saved + "\nloaded 2 messages from " + saved + "\n")
        << run.err;
    folder.write("wrong", "/think maybe\n/save\n/load\n");
    const Outcome wrong = lapidary(kGreedy + "<" + folder.path("wrong"));
    expect(wrong.status == 1_i && wrong.out.empty());
    expect(wrong.err == "[/think] expected on, off or nothing, got 'maybe'\n[/save] expected a file, got none\n"
                        "[/load] expected a file, got none\n") << wrong.err;
  };

  "a full context says what to do, and the way out works"_test = [] {
    const TemporaryFolder folder;
    const std::string story = "Tell me a long story about a river and a stone, please, with many words in it.\n";
    folder.write("in", story + story + story + "/reset\nSpell the word garden.\n");
    const Outcome run = lapidary(kGreedy + "--context 60 --max-tokens 20 <" + folder.path("in"));
    expect(run.status == 1_i && run.out.ends_with("G-A-R-D-E-N.\n")) << run.out;
    expect(run.err.find("[context] expected fewer than 60 tokens, got ") != std::string::npos) << run.err;
    expect(run.err.find("; /reset starts again, --context makes room for more\n") != std::string::npos) << run.err;
  };

  "a block that is pasted is one message"_test = [] {
    Terminal terminal(kGreedy);
    expect(fatal(terminal.shows("\x1b[?2004h")));
    expect(fatal(terminal.shows("> ")));
    terminal.type("\x1b[200~/first\rsecond \u00e9\rthird\x1b[201~\r");
    expect(terminal.shows("[/first] command, expected one that /help lists")) << terminal.screen();
    expect(terminal.shows("> "));
    terminal.type("/save\r");
    expect(terminal.shows("[/save]")) << "nothing else was taken for a message\n" << terminal.screen();
    expect(terminal.screen().find("G-A") == std::string::npos);
  };

  "Ctrl-C leaves a long line below itself, Ctrl-D a new one"_test = [] {
    Terminal terminal(kGreedy);
    expect(fatal(terminal.shows("> ")));
    terminal.type(std::string(200, 'x') + "\x01");
    expect(terminal.shows(std::string(30, 'x')));
    usleep(500'000);
    terminal.type("\x03");
    expect(terminal.shows("\n") && terminal.shows("\n") && terminal.shows("\n")) << "from the first row of three to the next";
    expect(terminal.shows("> "));
    terminal.type("\x04");
    expect(terminal.status() == 0_i);
    expect(terminal.screen().ends_with("\n")) << terminal.screen();
  };

  "Ctrl-Z gives the terminal to the shell, and the line is there again when it goes on"_test = [] {
    Terminal terminal(Terminal::Script{"set -m; " + kProgram + " " + kGreedy + "; echo stopped; stty -a; fg >/dev/null; echo ended"});
    expect(fatal(terminal.shows("> ")));
    terminal.type("Spell the word gar");
    expect(terminal.shows("gar"));
    terminal.type("\x1a");
    expect(terminal.shows("\x1b[?2004l") && terminal.shows("stopped")) << terminal.screen();
    expect(terminal.shows(" icanon ") && terminal.shows(" echo ")) << "as it was before the line\n" << terminal.screen();
    expect(terminal.shows("\x1b[?2004h") && terminal.shows("> Spell the word gar")) << terminal.screen();
    terminal.type("den.\r");
    expect(terminal.shows("G-A-R-D-E-N.")) << terminal.screen();
    expect(terminal.shows("> "));
    terminal.type("\x04");
    expect(terminal.shows("ended") && terminal.status() == 0_i) << terminal.screen();
  };

  "a line can be edited, and history recalled, on a terminal"_test = [] {
    Terminal terminal(kGreedy);
    expect(fatal(terminal.shows("> ")));
    terminal.type("Spell the wrd garden.\x01\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[Co\r");
    expect(terminal.shows("G-A-R-D-E-N.")) << terminal.screen();
    expect(terminal.shows("> "));
    terminal.type("/reset\r");
    expect(terminal.shows("> "));
    terminal.type("\x1b[A\x1b[A\r");  // up, up: the first line again
    expect(terminal.shows("G-A-R-D-E-N.")) << terminal.screen();
    expect(terminal.shows("> "));
    terminal.type("\x04");
    expect(terminal.status() == 0_i);
  };

  "letters beyond ASCII can be typed in a UTF-8 terminal, and also where nothing says what it is"_test = [] {
    for (const char* locale : {"C.UTF-8", "C", ""}) {
      setenv("LC_ALL", locale, 1);
      Terminal terminal(kGreedy);
      unsetenv("LC_ALL");
      expect(fatal(terminal.shows("> ")));
      terminal.type("/caf\u00e9\u4e2d\r");
      expect(terminal.shows("[/caf\u00e9\u4e2d]")) << locale << terminal.screen();
    }
  };

  "Ctrl-C stops an answer, gives up a line, and neither ends the program"_test = [] {
    Terminal terminal("chat --temperature 1 --seed 1 --logit-bias 1=-100 --logit-bias 6=-100 --context 8000");
    expect(fatal(terminal.shows("> ")));
    terminal.type("Tell me a story.\r");
    expect(terminal.shows("\r\n") && terminal.shows(" "));
    usleep(500'000);
    terminal.type("\x03");
    expect(terminal.shows("> ")) << terminal.screen();
    terminal.type("half a line\x03");
    expect(terminal.shows("half a line"));
    expect(terminal.shows("> ")) << terminal.screen();
    terminal.type("/quit\r");
    expect(terminal.status() == 0_i);
  };

  "a long prompt says how far it is, on a terminal, unless told to be quiet"_test = [] {
    const std::string generate = "generate --temperature 0 --threads 1 'What is the capital of Norway?' ";
    for (const auto& [arguments, kind, says] :
         {std::tuple{"--chunk 8", "xterm", true}, {"--chunk 8 --quiet", "xterm", false}, {"--chunk 8", "dumb", false}, {"", "xterm", false}}) {
      Terminal terminal(generate + arguments, kind);
      expect(terminal.status() == 0_i);
      const std::string& screen = terminal.screen();
      const std::size_t line = screen.find("\rprompt: 8 of "), gone = screen.rfind("\r\033[K"), answer = screen.find("The capital");
      expect((line != std::string::npos) == says) << arguments << kind << screen;
      expect(answer != std::string::npos && screen.ends_with("The capital of Norway is Oslo.\r\n")) << screen;
      if (says) expect(line < gone && gone + 4 == answer && screen.find(" tok/s, ") < gone && screen.find(" s left") < gone) << screen;
    }
  };

  if (!kGem) "a terminal shows what is being loaded, and nothing of it afterwards"_test = [] {
    std::string shown;
    for (const char* stage : {"checkpoint", "tokenizer", "weights", "warm-up"}) shown += std::string("\rloading: ") + stage + "\033[K";
    shown += "\r\033[K";
    for (const auto& [arguments, kind, says] :
         {std::tuple{"", "xterm", true}, {"--quiet", "xterm", false}, {"", "dumb", false}}) {
      Terminal terminal(std::string("generate --temperature 0 --warm-up 'What is the capital of Norway?' ") + arguments, kind);
      expect(terminal.status() == 0_i);
      expect(terminal.screen() == (says ? shown : "") + "The capital of Norway is Oslo.\r\n") << arguments << kind << terminal.screen();
    }
    Terminal narrow(Terminal::Script{"exec " + kProgram + " generate --temperature 0 'What is the capital of Norway?'", 14});
    expect(narrow.shows("\rloading: chec\033[K\rloading: toke\033[K\rloading: weig\033[K\r\033[KThe capital")) << narrow.screen();
    Terminal chat("chat --warm-up");
    expect(chat.shows(shown + "/help lists")) << chat.screen();
  };

  "a question can be taken back, asked again and go over several lines"_test = [] {
    const TemporaryFolder folder;
    folder.write("tools", R"([{"type":"function","function":{"name":"get_time","description":"The time","parameters":{"type":"object","properties":{}}}}])");
    folder.write("in", "/undo\n/retry\nSpell the word garden.\n/retry\nWhat is the capital\\\nof Norway?\n/undo\n/save " + folder.path("saved") +
                           "\n/schema {\"enum\":[\"yes\"]}\nIs it?\n/schema off\n/tools " + folder.path("tools") + "\n/tools off\n/bye\nnever\n");
    const Outcome run = lapidary(kGreedy + "<" + folder.path("in"));
    expect(run.status == 1_i) << "the first two failed";
    expect(run.out.starts_with("G-A-R-D-E-N.\nG-A-R-D-E-N.\n") && run.out.ends_with("\n\"yes\"\n")) << run.out;
    const auto saved = text::parse_json(read_all(folder.path("saved")), "saved");
    expect(saved.array() && saved.array()->size() == 2u) << read_all(folder.path("saved"));
    for (const char* piece : {"[conversation] expected a question to take back, got none", "forgot: What is the capital\nof Norway?", "the schema is on",
                              "the schema is off", "tools are on", "tools are off"})
      expect(run.err.find(piece) != std::string::npos) << piece << "\n" << run.err;
  };

  "lines are remembered for the next time"_test = [] {
    const TemporaryFolder folder;
    const std::string home = folder.path("state");
    setenv("XDG_STATE_HOME", home.c_str(), 1);
    for (const bool first : {true, false}) {
      Terminal terminal(kGreedy);
      expect(fatal(terminal.shows("> ")));
      terminal.type(first ? "Spell the word garden.\r" : "\x1b[A\x1b[A\r");  // up past /quit
      expect(terminal.shows("G-A-R-D-E-N.")) << terminal.screen();
      expect(terminal.shows("> "));
      terminal.type("/quit\r");
      expect(terminal.status() == 0_i);
    }
    unsetenv("XDG_STATE_HOME");
  };

  "thoughts are dimmed on a terminal, unless the user wants no colours"_test = [] {
    for (const bool colours : {true, false}) {
      if (!colours) setenv("NO_COLOR", "1", 1);
      Terminal terminal("generate --temperature 0 --threads 1 --think 'List three nouns.'");
      expect(terminal.status() == 0_i);
      const std::size_t dim = terminal.screen().find("\x1b[2m"), plain = terminal.screen().find("\x1b[0m\r\n");
      expect((dim != std::string::npos && dim < plain && plain != std::string::npos) == colours) << terminal.screen();
    }
    unsetenv("NO_COLOR");
  };

  "thoughts are folded into a line when asked to"_test = [] {
    const std::string ask = "generate --temperature 0 --threads 1 --think 'What is the capital of Norway?' ";
    const Outcome shown = lapidary(ask), folded = lapidary(ask + "--thoughts fold");
    expect(folded.status == 0_i && folded.out == shown.out && !shown.err.empty());
    const auto thought = text::parse_json(lapidary("tokenize --json '" + shown.err.substr(0, shown.err.find_last_not_of('\n') + 1) + "'").out, "ids");
    expect(folded.err == "(thought for " + std::to_string(thought.find("ids")->array()->size()) + " tokens)\n") << folded.err << shown.err;

    const TemporaryFolder folder;
    folder.write("in", "/think on\n/thoughts fold\nWhat is the capital of Norway?\n/thoughts show\n/thoughts\n");
    const Outcome chat = lapidary(kGreedy + "<" + folder.path("in"));
    expect(chat.out == shown.out && chat.err == "thinking is on\nthoughts are folded\n" + folded.err +
                                                    "thoughts are shown\n[/thoughts] expected show or fold, got ''\n") << chat.err;

    Terminal terminal(ask + "--thoughts fold");
    expect(terminal.shows("\rthinking: 1 tokens\033[K") && terminal.shows("\rthinking: 2 tokens\033[K"));
    expect(terminal.shows("\r\033[K\x1b[2m(thought for ")) << terminal.screen();
    expect(terminal.status() == 0_i && terminal.screen().ends_with("tokens)\x1b[0m\r\n" + shown.out.substr(0, shown.out.size() - 1) + "\r\n"))
        << terminal.screen();
  };

  "a dumb terminal will do"_test = [] {
    Terminal terminal(kGreedy, "dumb");
    expect(fatal(terminal.shows("> ")));
    terminal.type("Spell the word garden.\r");
    expect(terminal.shows("G-A-R-D-E-N.")) << terminal.screen();
    expect(terminal.shows("> "));
    terminal.type("\x04");
    expect(terminal.status() == 0_i);
  };
};

}  // namespace
}  // namespace lapidary::test::chat_test
