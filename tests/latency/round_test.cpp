// Rounds wait for nobody: once a text is under way, none allocates memory, and none calls the system. The process that plays them
// counts its allocations, then gives up the right to make system calls.
#include <boost/ut.hpp>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "decode/lookup.hpp"
#include "support/expected.hpp"
#include "support/generating.hpp"
#include "support/model.hpp"
#include "support/pairs.hpp"
#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

// The C library's own, by their other names: what it and all others call is defined here.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {
std::atomic<long> allocations = 0;
}

#pragma GCC visibility push(default)
extern "C" {
void* malloc(std::size_t bytes) { return ++allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++allocations, __libc_calloc(count, bytes); }
void* realloc(void* old, std::size_t bytes) { return ++allocations, __libc_realloc(old, bytes); }
void* memalign(std::size_t alignment, std::size_t bytes) { return ++allocations, __libc_memalign(alignment, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return ++allocations, __libc_memalign(alignment, bytes); }
}
#pragma GCC visibility pop

namespace lapidary::test::round_test {
namespace {

using namespace boost::ut;
using decode::Generation;
using decode::Speculation;
using Tokens = std::vector<std::int32_t>;

constexpr int kWarmUp = 24, kTokens = 100;

// What is generated, by whom.
struct Text {
  Pair pair;
  Tokens prompt;
  graph::Sampling sampling{};
  std::optional<decode::Constraint> constraint{};
};

constexpr graph::Sampling kSampled{.repetition = 1.1f, .frequency = 0.2f, .temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = 5};

// The number of the system call that a process was ended for; it and its parent share the memory.
int& system_call() {
  static int* const number = static_cast<int*>(mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *number;
}

// From here on the process may end, and its threads may sleep and wake each other, which they do when one has long nothing to do.
void give_up_system_calls(bool threads) {
  std::vector<sock_filter> rules{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  std::vector<unsigned> allowed{__NR_exit_group};
  if (threads) allowed.insert(allowed.end(), {__NR_futex, __NR_sched_yield});
  for (const unsigned call : allowed) {
    rules.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    rules.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  rules.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = [](int, siginfo_t* info, void*) {
    system_call() = info->si_syscall;
    _exit(3);
  };
  sigaction(SIGSYS, &action, nullptr);
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    _exit(2);
}

// Plays in a process of its own; its exit status: 0 = nothing was allocated, 1 = something was, 2 = it could not be watched, 3 = it was
// ended for a system call.
int play(int threads, const std::function<Speculation()>& make_speculation, const Text& text) {
  system_call() = -1;
  const pid_t child = fork();
  if (child == 0) {
    Loaded model(text.pair.target, {.backend_options = {.pin_threads = true, .warm_up = true}, .context_tokens = 512}, threads,
                 text.pair.assistant);
    Speculation speculation = make_speculation();
    decode::Session session(model.program, *model.executor);
    Generation generation(session, text.prompt, {.sampling = text.sampling, .constraint = text.constraint, .speculation = &speculation, .prediction = text.prompt});
    for (int i = 0; i < kWarmUp; ++i) generation.next();
    give_up_system_calls(threads > 1);
    const long before = allocations;
    for (int i = 0; i < kTokens; ++i) generation.next();
    _exit(allocations == before ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Speculation drafting(std::unique_ptr<decode::DraftSource> (*source)(), int k) {
  std::vector<Speculation::SourceKind> sources;
  sources.push_back({source, {}});
  return Speculation(std::move(sources), k);
}

const std::function<Speculation()> kKinds[] = {
    [] { return Speculation({}, 0); },
    [] { return drafting([]() -> std::unique_ptr<decode::DraftSource> { return std::make_unique<decode::Assistant>(); }, 3); },
    [] { return drafting([]() -> std::unique_ptr<decode::DraftSource> { return std::make_unique<decode::Lookup>(512); }, 7); },
};

void play_all(int threads, Text text, const char* name) {
  for (const graph::Sampling& sampling : {graph::Sampling{}, kSampled}) {
    text.sampling = sampling;
    for (std::size_t kind = 0; kind < std::size(kKinds); ++kind)
      expect(play(threads, kKinds[kind], text) == 0_i) << name << threads << kind << sampling.temperature << "system call" << system_call();
  }
}

// Each of its parts is new to the grammar; most are read after the warm-up, and the last has no end within the text.
constexpr std::string_view kSchema = R"({"type":"object","properties":{
  "on":{"type":"array","items":{"type":"boolean"},"minItems":3,"maxItems":3},"name":{"type":"string","maxLength":5},
  "kind":{"enum":["red","green","blue"]},"share":{"type":"number"},"count":{"type":"integer","minimum":-40,"maximum":4000},
  "parts":{"type":"array","minItems":2,"maxItems":2,"items":{"anyOf":[{"type":"string","maxLength":3},{"type":"null"},
    {"type":"object","properties":{"x":{"type":"array","minItems":1,"maxItems":1,"items":{"type":"array","minItems":1,"maxItems":1,
      "items":{"enum":[[1,[2]],"deep"]}}}},"required":["x"],"additionalProperties":false}]}},
  "rest":{"type":"array","minItems":900,"items":{"anyOf":[{"$ref":"#/$defs/any"},{"type":"string","pattern":"^[a-z]{2}[0-9]+$"}]}}},
  "required":["on","name","kind","share","count","parts","rest"],"additionalProperties":false,
  "$defs":{"any":{"anyOf":[{"type":"integer"},{"type":"array","items":{"$ref":"#/$defs/any"}}]}}})";
constexpr std::string_view kTools = R"([{"type":"function","function":{"name":"look","parameters":{"type":"object",
  "properties":{"at":{"type":"string","maxLength":7},"times":{"type":"array","items":{"type":"integer","minimum":1,"maximum":40}}},
  "required":["at","times"]}}},{"type":"function","function":{"name":"stop"}}])";

const suite<"rounds wait for nobody"> rounds = [] {
  "a round neither allocates nor calls the system"_test = [] {
    const Pair pair = fixture_pairs().front();
    const Text text{pair, Expected(pair.assistant + "/rounds.safetensors.xz").ids("prompt0.input_ids")};
    for (const int threads : {1, 2}) play_all(threads, text, "free");
  };

  "nor does one with a grammar"_test = [] {
    const Pair pair = pebble_pair();
    const text::Tokenizer tokenizer = text::Tokenizer::open(pair.target);
    const decode::Markers call{*tokenizer.special("<|tool_call>"), *tokenizer.special("<tool_call|>")};
    const Tokens prompt = tokenizer.encode("<bos><|turn>user\nGive me JSON for 3 people.<turn|>\n<|turn>model\n");
    Text text{pair, prompt, {}, decode::Constraint({.answer_grammar = text::Grammar::schema(tokenizer, text::parse_json(kSchema, "schema"))})};
    play_all(1, text, "schema");
    text.constraint = decode::Constraint({.call_grammar = text::Grammar::calls(tokenizer, text::parse_json(kTools, "tools")), .call = call});
    text.constraint->accept(call.open);
    text.prompt.push_back(call.open);
    play_all(1, text, "calls");
  };

  "one that did would be found out"_test = [] {
    const auto ends_with = [](int expected, auto&& act) {
      const pid_t child = fork();
      if (child == 0) {
        give_up_system_calls(false);
        const long before = allocations;
        act();
        _exit(allocations == before ? 0 : 1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      expect((WIFEXITED(status) ? WEXITSTATUS(status) : -1) == expected) << expected;
    };
    ends_with(0, [] {});
    ends_with(1, [] {
      void* volatile memory = operator new(7);
      operator delete(memory);
    });
    ends_with(3, [] { static_cast<void>(getppid()); });
    expect(system_call() == __NR_getppid);
  };
};

}  // namespace
}  // namespace lapidary::test::round_test
