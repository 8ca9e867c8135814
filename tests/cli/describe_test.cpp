// What the program says of itself: the manual page, completions in the shells they are for, versions, and misspelt words.
#include <boost/ut.hpp>

#include "support/program.hpp"

namespace lapidary::test::describe_test {
namespace {

using namespace boost::ut;

bool contains(const std::string& text, const std::string& piece) { return text.find(piece) != std::string::npos; }

bool is_here(const char* program) { return shell(std::string("command -v ") + program).status == 0; }

// The candidates for the last of some words, one to a line.
std::string bash_candidates(const std::string& words) {
  return shell("bash -c 'source <(" LAPIDARY_PROGRAM " completions bash); COMP_WORDS=(" + words +
               "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _lapidary; printf \"%s\\n\" \"${COMPREPLY[@]}\"'").out;
}

std::string fish_candidates(const std::string& line) {
  return shell("fish --no-config -c 'source (" LAPIDARY_PROGRAM " completions fish | psub); complete -C \"" + line + "\"'").out;
}

// On a terminal, at the first TAB.
bool zsh_offers(const std::string& line, const std::string& candidate) {
  const TemporaryFolder folder;
  folder.write("_lapidary", lapidary("completions zsh").out);
  return shell("zsh -f -c 'zmodload zsh/zpty; zpty -b z zsh -f -i; "
               "zpty -w z \"PS1=; fpath=(" + folder.path("") + " \\$fpath); autoload -U compinit; compinit -D -u; "
               "unsetopt zle_bracketed_paste 2>/dev/null; LISTMAX=1000; echo rea\\dy\"; "
               "for i in {1..100}; do zpty -r -t z x; out+=$x; [[ $out == *ready* ]] && break; sleep 0.1; done; out=; "
               "zpty -w -n z \"" + line + "\"$'\"'\\t'\"'; "
               "for i in {1..50}; do sleep 0.1; zpty -r -t z x && out+=$x; [[ $out == *" + candidate + "* ]] && exit 0; done; exit 1'")
             .status == 0;
}

const suite<"descriptions"> descriptions = [] {
  "manual page and completions name every command and flag"_test = [] {
    for (const char* arguments : {"man", "completions bash", "completions zsh", "completions fish"}) {
      const Outcome run = lapidary(arguments);
      expect(run.status == 0_i);
      std::string plain = run.out;
      std::erase(plain, '\\');
      for (const char* word : {"generate", "chat", "json-schema", "inspect"}) expect(contains(plain, word)) << arguments << word;
    }
  };

  "the manual page is clean, and flags without a value have none"_test = [] {
    const std::string page = lapidary("man").out;
    expect(contains(page, "\n.B \\-\\-json\n") && contains(page, "\n.B \\-\\-think\n")) << page;
    expect(contains(page, "\n.B \\-s, \\-\\-seed \\fIN\\fR\n") && contains(page, "\\fIauto|mtp|dflash|lookup|none\\fR"));
    if (!is_here("groff")) return;
    const Outcome drawn = shell(LAPIDARY_PROGRAM " man | groff -man -ww -Tutf8 >/dev/null");
    expect(drawn.status == 0_i && drawn.err.empty()) << drawn.err;
  };

  "bash completes commands, flags and values"_test = [] {
    expect(contains(bash_candidates("lapidary ge"), "generate\n"));
    expect(contains(bash_candidates("lapidary generate --draft-k"), "--draft-kind\n"));
    expect(bash_candidates("lapidary generate --draft-kind \"\"") == "auto\nmtp\ndflash\nlookup\nnone\n");
    expect(bash_candidates("lapidary chat --numeric f") == "fast\n");
    expect(bash_candidates("lapidary chat --backend \"\"") == "cpu\n");
    expect(bash_candidates("lapidary completions \"\"").starts_with("bash\nzsh\nfish\n"));
    expect(bash_candidates("lapidary generate --file \"\"") == "\n") << "files are the shell's";
  };

  if (is_here("fish")) "fish completes commands, flags and values"_test = [] {
    expect(contains(fish_candidates("lapidary ge"), "generate\t"));
    expect(contains(fish_candidates("lapidary generate --draft-kind "), "lookup"));
    expect(contains(fish_candidates("lapidary generate --numeric=f"), "fast"));
    expect(contains(fish_candidates("lapidary completions "), "zsh"));
    expect(contains(fish_candidates("lapidary generate --json --th"), "--think")) << "--json has no value";
  };

  if (is_here("zsh")) "zsh completes commands, flags and values at the first TAB"_test = [] {
    expect(zsh_offers("lapidary tok", "tokenize"));
    expect(zsh_offers("lapidary generate --draft-kind ", "lookup"));
    expect(zsh_offers("lapidary generate --numeric f", "fast"));
    expect(zsh_offers("lapidary completions ", "fish"));
  };
};

const suite<"words"> words = [] {
  "--version tells version, compiler, backends and graphs"_test = [] {
    const Outcome run = lapidary("--version");
    expect(run.status == 0_i && run.out.starts_with("lapidary 0.")) << run.out << run.err;
    for (const char* piece : {"\ncompiler: ", "\nbackends: cpu", "\ngraphs: gemma-4-e2b ", " pebble"}) expect(contains(run.out, piece)) << run.out;
  };

  "a misspelt word is the one that is blamed, with what was meant"_test = [] {
    for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
             {"generat hi", "got 'generat'; did you mean generate?\n"},
             {"foo", "[lapidary] expected one of generate, chat, serve, list, inspect, "},
             {"foo", ", got 'foo'\n"},
             {"generate --temprature 1 hi", "[generate] expected flags that --help lists, got --temprature; did you mean --temperature?\n"},
             {"generate hi --max_token=3", "[generate] expected flags that --help lists, got --max-token; did you mean --max-tokens?\n"},
             {"generate hi --zzzzzzzz", "[generate] expected flags that --help lists, got --zzzzzzzz\n"},
             {"generate hello there", "[generate] expected no more words, got 'there'; a text with spaces goes in quotes\n"},
             {"completions bsh", "[completions] expected one of bash, zsh, fish, got 'bsh'; did you mean bash?\n"}}) {
      const Outcome run = lapidary(arguments);
      expect(run.status == 2_i && contains(run.err, message)) << arguments << run.err;
      expect(run.err.starts_with("[") && run.err.find('\n') == run.err.size() - 1) << run.err;
    }
  };

  "short forms, underscores, and the last one wins"_test = [] {
    const std::string model = kRoot + "/models/pebble";
    const std::string plain = "generate --json --model " + model +
                              " --max-tokens 4 --context 200 --threads 1 --seed 7 --temperature 1 --top-k 5 'Tell me a story.'";
    const std::string brief = "generate --json -m nowhere -m " + model +
                              " -n 9 -n 4 -c 200 -t 1 -s 8 -s 7 --temp 0 --temp 1 --top_k=5 -p 'Tell me a story.'";
    const auto ids = [](const Outcome& run) {
      expect(fatal(run.status == 0_i)) << run.err;
      return run.out.substr(0, run.out.find("\"stats\""));
    };
    expect(ids(lapidary(plain)) == ids(lapidary(brief)));
    expect(lapidary("tokenize -- --top_k").out != lapidary("tokenize -- --top-k").out) << "a text stays as it is";
  };

  "ranges and defaults are in the help"_test = [] {
    const std::string help = lapidary("generate --help").out;
    for (const char* piece : {"--temperature", "(0 to 100, default: the checkpoint's)", "--max-tokens N", "(at least 1, default: until",
                              "--draft-kind auto|mtp|dflash|lookup|none", "(1 to 256, default: one per core"})
      expect(contains(help, piece)) << piece << help;
  };
};

}  // namespace
}  // namespace lapidary::test::describe_test
