// lapidary serve as a program: flags, variables, signals, exit codes, and what its log does not say.
#include <boost/ut.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "serve/listen.hpp"
#include "serve/raw_http.hpp"
#include "support/program.hpp"

namespace lapidary::test::serve_test {
namespace {

using namespace boost::ut;

const std::string kPebble = " --model " + kRoot + "/models/pebble --threads 1 --sessions 1 --context 2048";

// In the background, on a Unix socket.
class Program {
 public:
  explicit Program(const std::string& flags = {}) {
    const std::string command = std::string("exec ") + LAPIDARY_PROGRAM + " serve --unix " + socket() + kPebble + " " + flags + " 2>" + folder_.path("log");
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~Program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      status();
    }
  }

  std::string socket() const { return folder_.path("socket"); }
  std::string log() const { return read_all(folder_.path("log")); }
  bool says(const std::string& text) const {
    for (int ms = 0; ms < serve::kPatienceMs; ms += 5) {
      if (log().find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  void tell(int signal) const { ::kill(process_, signal); }
  // Its exit status, once it has ended.
  int status() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  const TemporaryFolder folder_;
  pid_t process_ = -1;
};

const suite<"flags of serve"> flags = [] {
  "show what holds and who said so"_test = [] {
    const Outcome run = shell(std::string("LAPIDARY_SERVE_PORT=1234 LAPIDARY_SERVE_QUEUE=5 ") + LAPIDARY_PROGRAM + " serve --queue 7 --allow-media-from a.example --allow-media-from b.example --check-config" + kPebble);
    expect(run.status == 0_i) << run.err;
    const auto line = [&](const std::string& name) {
      const std::size_t at = ("\n" + run.out).find("\n" + name + " ");
      std::string text;
      if (at == std::string::npos) return text;
      for (const char c : run.out.substr(at, run.out.find('\n', at) - at))
        if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
      return text;
    };
    expect(line("--port") == "--port 1234 LAPIDARY_SERVE_PORT") << line("--port");
    expect(line("--queue") == "--queue 7 flag") << line("--queue");
    expect(line("--allow-media-from") == "--allow-media-from a.example b.example flag") << line("--allow-media-from");
    expect(line("--host") == "--host 127.0.0.1 default") << line("--host");
    expect(line("--drain-timeout") == "--drain-timeout 30 default") << line("--drain-timeout");
  };

  "that are wrong are refused with their names"_test = [] {
    const TemporaryFolder folder;
    folder.write("keys", "me abc\n");
    folder.write("broken", "secret\n");
    const auto refused = [&](const std::string& flags, const std::string& name) {
      const Outcome run = lapidary("serve --check-config" + kPebble + " " + flags);
      expect(run.status == 2_i && run.err.find(name) != std::string::npos) << flags << run.status << run.err;
      expect(run.err.find("secret") == std::string::npos);
    };
    refused("--port 70000", "--port");
    refused("--port x", "--port");
    refused("--queue -1", "--queue");
    refused("--queue-timeout 0", "--queue-timeout");
    refused("--max-body lots", "--max-body");
    refused("--body-memory 16M", "--body-memory");
    refused("--prefix-cache much", "--prefix-cache");
    refused("--host 0.0.0.0", "--no-key");
    refused("--no-key --api-key-file " + folder.path("keys"), "--no-key");
    refused("--share-prefix-cache --prefix-cache off", "--share-prefix-cache");
    refused("--unix a --port 1", "--unix");
    refused("--allow-media-from https://a.example/", "[--allow-media-from] expected the name of a host alone, got https://a.example/");
    expect(lapidary("serve --check-config" + kPebble + " --api-key-file " + folder.path("broken")).status != 0_i);
    expect(lapidary("serve --check-config" + kPebble + " --api-key-file " + folder.path("nothing")).err.find(folder.path("nothing")) != std::string::npos);
    const Outcome variable = shell(std::string("LAPIDARY_SERVE_PORT=x ") + LAPIDARY_PROGRAM + " serve --check-config" + kPebble);
    expect(variable.status == 2_i && variable.err.find("port") != std::string::npos) << variable.err;
    for (const std::string& good : {std::string("--host 0.0.0.0 --no-key"), "--host 0.0.0.0 --api-key-file " + folder.path("keys"), std::string("--host ::1")})
      expect(lapidary("serve --check-config" + kPebble + " " + good).status == 0_i) << good;
  };

  "name a port that somebody has"_test = [] {
    const int taken = serve::listen_on_tcp("127.0.0.1", 0);
    const Outcome run = lapidary("serve" + kPebble + " --port " + std::to_string(serve::port_of(taken)));
    ::close(taken);
    expect(run.status == 1_i && run.err.starts_with("[--port] ")) << run.status << run.err;
  };
};

const suite<"serve"> running = [] {
  "drains at the first signal, with nothing that a client wrote in its log"_test = [] {
    Program program;
    expect(program.says("listening on ")) << program.log();
    for (const std::string& request :
         {serve::post("/v1/chat/completions", R"({"max_tokens":2,"user":"sesame","messages":[{"role":"user","content":"sesame"}]})", "X-Mine: sesame\r\nAuthorization: Bearer sesame\r\n"),
          serve::post("/v1/chat/completions", R"({"sesame":1})"), serve::post("/v1/chat/completions", "sesame"), serve::post("/tokenize", R"({"content":1,"sesame":2})"),
          serve::get("/sesame?sesame"), serve::get("/v1/models/sesame"), std::string("SESAME /health HTTP/1.1\r\nHost: sesame\r\n\r\n"), std::string("sesame\r\n\r\n")}) {
      serve::RawClient client(program.socket());
      client.send(request);
      client.reply();
    }
    program.tell(SIGUSR1);  // is none of its
    program.tell(SIGTERM);
    expect(program.status() == 0_i);
    const std::string log = program.log();
    expect(log.find("/v1/chat/completions 200 ") != std::string::npos && log.find("draining: ") != std::string::npos) << log;
    expect(log.find("sesame") == std::string::npos && log.find("SESAME") == std::string::npos) << log;
    expect(::access(program.socket().c_str(), F_OK) != 0) << "the socket is gone";
  };

  "ends at once at the second"_test = [] {
    Program program;
    expect(program.says("listening on "));
    serve::RawClient client(program.socket());
    client.send(serve::post("/v1/chat/completions", R"({"stream":true,"temperature":1,"seed":1,"logit_bias":{"1":-100,"6":-100},"messages":[{"role":"user","content":"Tell me a story."}]})"));
    expect(client.readable(serve::kPatienceMs));  // it has begun, and nobody reads on
    program.tell(SIGINT);
    expect(program.says("draining: "));
    program.tell(SIGTERM);
    expect(program.status() == 130_i);
  };

  "says what is wrong with its model"_test = [] {
    const Outcome run = lapidary("serve --port 0 --model /nowhere/at-all");
    expect(run.status == 1_i || run.status == 2_i) << run.status;
    expect(run.err.find("at-all") != std::string::npos) << run.err;
  };
};

}  // namespace
}  // namespace lapidary::test::serve_test
