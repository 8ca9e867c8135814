// lapidary generate on pebble, as a user meets it.
#include <boost/ut.hpp>

#include "support/program.hpp"
#include "support/slow_build.hpp"
#include "text/value.hpp"

namespace lapidary::test::generate_test {
namespace {

using namespace boost::ut;
using text::Value;

const std::string kGreedy = " --temperature 0 --threads 1 --numeric exact ";

Value json(const std::string& text) { return text::parse_json(text, "output"); }

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// The members of an object as text, "" when absent.
std::string member(const Value& object, const char* key) {
  const Value* value = object.find(key);
  return value && value->string() ? *value->string() : "";
}

constexpr const char* kTools = R"([{"type":"function","function":{"name":"get_weather","description":"Get the current weather",
  "parameters":{"type":"object","properties":{"location":{"type":"string","description":"City name"}},"required":["location"]}}}])";

bool has_marker(const std::string& text) {
  for (const char* marker : {"<|", "|>", "<channel", "thought\n", "<turn", "<bos>", "<eos>"})
    if (text.find(marker) != std::string::npos) return true;
  return false;
}

const suite<"lapidary generate"> generate = [] {
  "answers pebble's recorded prompts as recorded, from argument, file and standard input"_test = [] {
    const Value golden = json(read_all(kRoot + "/models/pebble/golden.json"));
    const TemporaryFolder folder;
    const int prompts = kSlowBuild ? 3 : 8;
    int number = 0;
    for (const Value& entry : std::span(*golden.array()).first(prompts)) {
      const std::string prompt = member(entry, "prompt"), text = member(entry, "text");
      const std::string limit = "--max-tokens " + std::to_string(entry.find("greedy")->array()->size());
      folder.write("prompt", prompt);
      const std::string way = number % 3 == 0   ? quoted(prompt)
                              : number % 3 == 1 ? "--file " + folder.path("prompt")
                                                : "<" + folder.path("prompt");
      const Outcome run = lapidary("generate " + kGreedy + limit + " " + way);
      expect(run.status == 0_i) << run.err;
      // An answer is printed without white space at its ends.
      const std::string printed = run.out.substr(0, run.out.find_last_not_of('\n') + 1);
      expect(!printed.empty() && text.starts_with(printed) && text.size() - printed.size() < 3) << prompt << "\n" << run.out;
      ++number;
    }
    expect(number == prompts);
  };

  "gives one JSON object with text, ids, stop reason and statistics"_test = [] {
    const Outcome run = lapidary("generate" + kGreedy + "--json --logprobs 2 'What is the capital of Norway?'");
    expect(fatal(run.status == 0)) << run.err;
    const Value result = json(run.out);
    expect(member(result, "text") == "The capital of Norway is Oslo.") << run.out;
    expect(member(result, "stop_reason") == "stop");
    expect(fatal(result.find("ids") && result.find("logprobs") && result.find("stats")));
    const auto& logprobs = *result.find("logprobs")->array();
    expect(logprobs.size() == result.find("ids")->array()->size());
    for (const Value& token : logprobs) {
      const Value &chosen = *token.find("chosen"), &best = (*token.find("top")->array())[0];
      expect(*chosen.find("id") == *best.find("id")) << "greedy takes the likeliest";
      expect(token.find("top")->array()->size() == 2u);
    }
    expect(result.find("stats")->find("prompt_tokens") != nullptr);

    const Outcome lines = lapidary("generate" + kGreedy + "--json-lines 'What is the capital of Norway?'");
    std::string text, last;
    std::istringstream in(lines.out);
    for (std::string line; std::getline(in, line);) {
      text += last.empty() ? "" : member(json(last), "text");
      last = line;
    }
    expect(text == "The capital of Norway is Oslo." && member(json(last), "text") == text) << lines.out;
  };

  "a seed repeats a sampled answer"_test = [] {
    const std::string flags = "generate --temperature 1 --max-tokens 30 --json 'Tell me a story.' --seed ";
    const Value one = json(lapidary(flags + "5").out), again = json(lapidary(flags + "5 --threads 2 --chunk 3").out);
    const Value other = json(lapidary(flags + "6").out);
    expect(*one.find("ids") == *again.find("ids"));
    expect(!(*one.find("ids") == *other.find("ids")));
  };

  "ends before a stop text"_test = [] {
    const Outcome run = lapidary("generate" + kGreedy + "--json --stop ' is Os' 'What is the capital of Norway?'");
    const Value result = json(run.out);
    expect(member(result, "text") == "The capital of Norway" && member(result, "stop_reason") == "stop_text") << run.out;
  };

  "thinks when asked to, and no marker leaks"_test = [] {
    const std::string prompt = "'Sort these words: river, apple, stone.'";
    const Value thinking = json(lapidary("generate" + kGreedy + "--json --think " + prompt).out);
    expect(!member(thinking, "reasoning").empty() && member(thinking, "text") == "apple, river, stone.");
    const Value silent = json(lapidary("generate" + kGreedy + "--json " + prompt).out);
    expect(member(silent, "reasoning").empty() && member(silent, "text") == "apple, river, stone.");
    for (const Value* result : {&thinking, &silent})
      expect(!has_marker(member(*result, "text")) && !has_marker(member(*result, "reasoning")));
    const Outcome plain = lapidary("generate" + kGreedy + "--think " + prompt);
    expect(plain.out == "apple, river, stone.\n" && !plain.err.empty() && !has_marker(plain.err)) << plain.out << plain.err;
  };

  "calls a tool and answers with its result"_test = [] {
    const TemporaryFolder folder;
    folder.write("tools.json", kTools);
    const std::string tools = "--tools " + folder.path("tools.json");
    const Outcome asked = lapidary("generate" + kGreedy + "--json " + tools + " 'What is the weather in Oslo?'");
    const Value call = json(asked.out);
    expect(fatal(call.find("tool_calls") != nullptr)) << asked.out;
    expect(text::to_json(*call.find("tool_calls")) == R"([{"name":"get_weather","arguments":{"location":"Oslo"}}])") << asked.out;
    expect(member(call, "stop_reason") == "tool_call");

    folder.write("messages.json", R"([{"role":"user","content":"What is the weather in Oslo?"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"get_weather","arguments":{"location":"Oslo"}}}]},
      {"role":"tool","tool_call_id":"1","content":"{\"temperature\": 12, \"condition\": \"rain\"}"}])");
    const Outcome answered = lapidary("generate" + kGreedy + "--json " + tools + " --messages " + folder.path("messages.json"));
    const std::string text = member(json(answered.out), "text");
    expect(answered.status == 0 && text == "It is 12 degrees and rainy in Oslo.") << answered.out << answered.err;
  };

  "text from a user cannot forge structure"_test = [] {
    const Value forged = json(lapidary("generate" + kGreedy + "--json --max-tokens 1 'Hi<turn|>'").out);
    const Value plain = json(lapidary("generate" + kGreedy + "--json --max-tokens 1 'Hi'").out);
    const auto tokens = [](const Value& result) { return *result.find("stats")->find("prompt_tokens")->integer(); };
    expect(tokens(forged) > tokens(plain) + 1) << "<turn|> became ordinary pieces";
  };

  if (!kGem) "mistakes give one line and the documented status"_test = [] {
    const TemporaryFolder folder;
    folder.write("latin1", "caf\xe9");
    folder.write("schema.json", R"({"type":"object","unevaluatedItems":false})");
    folder.write("not.json", "[{");
    folder.write("long", std::string(20000, 'x') + " word");
    for (const auto& [arguments, status] : std::vector<std::pair<std::string, int>>{
             {"generate --file " + folder.path("latin1"), 1},
             {"generate \"$(printf 'caf\\351')\"", 1},
             {"generate hi --system \"$(printf 'caf\\351')\"", 1},
             {"generate --file " + folder.path("missing"), 1},
             {"generate --file " + folder.path(), 1},
             {"generate hi --model " + folder.path("nowhere"), 1},
             {"generate hi --model " + kFixtures + "/models/dense-bf16", 1},  // has no tokenizer
             {"generate hi --json-schema " + folder.path("schema.json"), 1},
             {"generate hi --json-schema " + folder.path("not.json"), 1},
             {"generate hi --tools " + folder.path("not.json"), 1},
             {"generate --messages " + folder.path("not.json"), 1},
             {"generate --file " + folder.path("long"), 2},
             {"generate hi --logit-bias x", 2},
             {"generate hi --logit-bias 99999999=1", 2},
             {"generate '' </dev/null", 2}}) {
      const Outcome run = lapidary(arguments);
      expect(run.status == status) << arguments << "\n" << run.err;
      expect(run.err.starts_with("[") && run.err.find('\n') == run.err.size() - 1) << arguments << "\n" << run.err;
      expect(run.out.empty()) << arguments;
    }
    for (const char* arguments : {"generate hi --raw --system x", "generate hi --raw --think", "generate hi --json --json-lines",
                                  "generate hi --json-mode --json-schema x", "generate hi --temperature -1",
                                  "generate hi --max-tokens 0", "generate hi --stop ''", "generate hi --no-such-flag",
                                  "generate hi --messages x", "generate hi --strict-tools",
                                  "generate hi --tools x --strict-tools --json-mode",
                                  "generate hi --tools x --strict-tools --json-schema x"})
      expect(lapidary(arguments).status == 2_i) << arguments;
  };

  "messages that cannot be answered are refused"_test = [] {
    const TemporaryFolder folder;
    for (const auto& [messages, mentions] : std::vector<std::pair<std::string, std::string>>{
             {"[]", "messages, expected at least one, got none"},
             {R"([{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":"x"}}]}])",
              "/x] cannot be read"},
             {R"([{"role":"user","content":[{"type":"audio"}]}])", "[media] images, audio and video, one for each placeholder, expected 1, got 0"},
             {R"([{"role":"wizard","content":"hi"}])",
              "messages[0].role, expected system, developer, user, assistant, model or tool, got \"wizard\""},
             {R"([{"role":"user"}])", "messages[0].content, expected a string or a list, got nothing"},
             {R"([{"role":"user","content":"hi"},{"role":"assistant","content":null},{"role":"user","content":"hi"}])",
              "messages[1].content, expected a string or a list, got null"},
             {R"([{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{1"}}]}])",
              "messages[1].tool_calls[0].function.arguments"}}) {
      folder.write("messages", messages);
      const Outcome run = lapidary("generate --messages " + folder.path("messages"));
      expect(run.status == 1_i && run.err.find(mentions) != std::string::npos) << messages << run.err;
      expect(run.err.starts_with("[") && run.out.empty());
    }
  };

  "arguments of a call may be a string, as OpenAI writes them"_test = [] {
    const TemporaryFolder folder;
    folder.write("tools.json", kTools);
    std::string answers[2];
    for (int i = 0; i < 2; ++i) {
      folder.write("messages", R"([{"role":"user","content":"What is the weather in Oslo?"},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"get_weather","arguments":)" +
                                   std::string(i ? R"("{\"location\": \"Oslo\"}")" : R"({"location":"Oslo"})") + R"(}}]},
        {"role":"tool","tool_call_id":"1","content":"{\"temperature\": 12, \"condition\": \"rain\"}"}])");
      const Outcome run = lapidary("generate" + kGreedy + "--tools " + folder.path("tools.json") + " --messages " + folder.path("messages"));
      expect(run.status == 0_i) << run.err;
      answers[i] = run.out;
    }
    expect(answers[0] == "It is 12 degrees and rainy in Oslo.\n" && answers[1] == answers[0]) << answers[1];
  };

  if (!kGem) "--verbose says what was chosen and why"_test = [] {
    const std::string command = "generate --temperature 0 --max-tokens 4 story ";
    const std::string pebble = kRoot + "/models/pebble";
    const Outcome plain = lapidary(command), run = lapidary(command + "--verbose --threads 1 --context 300");
    expect(run.status == 0_i && run.out == plain.out && plain.err.find("model  ") == std::string::npos) << run.err;
    for (const std::string& line :
         {"model        " + pebble + " (comes with lapidary; --model takes another)", std::string("backend      cpu (first of this build)"),
          std::string("numeric      exact (usual for a model of this size)"), std::string("threads      1 (--threads)"),
          "assistant    " + pebble + "-assistant (lies beside the model)", "dflash       " + pebble + "-dflash (lies beside the model)"})
      expect(run.err.find(line + "\n") != std::string::npos) << line << "\n" << run.err;
    for (const char* piece : {"instructions ", "K/V          f32, ", " for 300 tokens\n", "drafts       by mtp, dflash, lookup, as many", " of mapped weights, ", "loaded in ",
                              "(checkpoint 0.", "s, tokenizer 0.", "s, weights 0."})
      expect(run.err.find(piece) != std::string::npos) << piece << "\n" << run.err;

    const Outcome asked = lapidary(command + "--verbose --model " + pebble + " --numeric fast --draft-kind none");
    for (const char* piece : {" (--model ", "fast (--numeric)\n", "drafter      none (--draft-kind)\ndrafts       none\n"})
      expect(asked.err.find(piece) != std::string::npos) << piece << "\n" << asked.err;
    expect(lapidary(command + "--verbose --quiet").status == 2_i);
    expect(shell("echo /quit | " + kProgram + " chat --verbose").err.find("loaded in ") != std::string::npos);
  };

  "an answer that was cut short is told from a whole one"_test = [] {
    const TemporaryFolder folder;
    folder.write("tools.json", kTools);
    const std::string cut = "[--max-tokens] the answer was cut short after ";
    struct Case {
      std::string arguments;
      int status;
      std::string line;  // on standard error
    };
    for (const Case& one :
         {Case{"'What is the capital of Norway?'", 0, ""},
          {"'What is the capital of Norway?' --max-tokens 3", 0, cut + "3 tokens\n"},
          {"'What is the capital of Norway?' --max-tokens 3 --json", 0, cut + "3 tokens\n"},
          {"'What is the capital of Norway?' --context 24", 0, "[--context] the answer was cut short: its 24 tokens are used up\n"},
          {R"(hi --json-schema '{"const":[1,2]}')", 0, ""},
          {R"(hi --json-schema '{"const":[1,2]}' --max-tokens 2)", 3, cut + "2 tokens and is unfinished\n"},
          {R"(hi --json-schema '{"type":"object"}' --max-tokens 1)", 3, cut + "1 token and is unfinished\n"},
          {"'What is the weather in Oslo?' --max-tokens 6 --tools " + folder.path("tools.json"), 3, cut + "6 tokens and is unfinished\n"},
          {"'What is the weather in Oslo?' --max-tokens 6 --strict-tools --tools " + folder.path("tools.json"), 3,
           cut + "6 tokens and is unfinished\n"}}) {
      const Outcome run = lapidary("generate" + kGreedy + one.arguments);
      expect(run.status == one.status && run.err == one.line) << one.arguments << run.status << run.out << run.err;
    }
    folder.write("in", "Tell me a story.\n");
    expect(lapidary("chat --max-tokens 2 <" + folder.path("in")).err == cut + "2 tokens\n");
  };

  "Ctrl-C ends it with what there is"_test = [] {
    const TemporaryFolder folder;
    const std::string out = folder.path("out");
    const Outcome run = shell(kProgram +
                              " generate --temperature 1 --seed 1 --json-lines 'Tell me a story.' --context 8000 --logit-bias 1=-100 "
                              "--logit-bias 6=-100 >" + out + " & pid=$!; while [ ! -s " + out + " ]; do sleep 0.1; done; "
                              "kill -INT $pid; wait $pid");
    expect(run.status == 130_i) << run.err;
    const std::string lines = read_all(out);
    const Value result = json(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
    expect(member(result, "stop_reason") == "cancelled" && !member(result, "text").empty()) << lines;
  };
};

}  // namespace
}  // namespace lapidary::test::generate_test
