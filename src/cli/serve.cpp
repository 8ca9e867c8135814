// lapidary serve: many conversations at a time, for clients that speak the protocols of OpenAI and Anthropic.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/environment.hpp"
#include "cli/commands.hpp"
#include "cli/flags.hpp"
#include "cli/loading.hpp"
#include "cli/media.hpp"
#include "cli/settings.hpp"
#include "serve/listen.hpp"
#include "serve/server.hpp"
#include "serve/systemd.hpp"

namespace lapidary::cli {
namespace {

constexpr const char* kAllowMediaFrom = "--allow-media-from";
constexpr int kMaxSessions = 64, kUsualSessions = 4;
constexpr double kLeastQueueSeconds = 0.1;  // less, and it might be over before a free session is there

struct ServeFlags {
  EngineFlags engine;
  serve::ServerOptions server;
  std::string key_file;
  std::vector<std::string> media_hosts;
  MakeFetcher make_fetcher = nullptr;
  std::optional<int> sessions;
  bool no_key = false, no_page = false, check_config = false;
};

serve::AccessRules access_of(const ServeFlags& flags) {
  const serve::ServerOptions& server = flags.server;
  serve::AccessRules rules = server.access;
  if (!flags.key_file.empty()) rules.keys = serve::read_keys(read_text_file(flags.key_file), flags.key_file);
  if (const std::string key = variable("LAPIDARY_API_KEY"); !key.empty()) rules.keys.push_back(serve::key_of("LAPIDARY_API_KEY", key));
  std::vector<std::string> addresses;
  for (const int socket : server.handed_over) addresses.push_back(serve::address_of(socket));
  if (addresses.empty() && server.unix_path.empty()) addresses.push_back(server.host);
  std::erase(addresses, "");  // of Unix sockets
  const auto far = std::ranges::find_if_not(addresses, serve::is_loopback);
  if (flags.no_key && !rules.keys.empty()) fail(ErrorKind::usage, "--no-key", "expected no key, got --api-key-file or LAPIDARY_API_KEY");
  if (far != addresses.end() && rules.keys.empty() && !flags.no_key)
    fail(ErrorKind::usage, "--host", "expected a loopback address, --api-key-file, or --no-key, which lets everybody in, got " + *far);
  rules.hosts.insert(rules.hosts.end(), addresses.begin(), addresses.end());
  return rules;
}

// With as many sessions as were asked for or, up to four, as fit.
std::unique_ptr<engine::Model> load(const ServeFlags& flags) {
  EngineFlags engine = flags.engine;
  for (int sessions = flags.sessions.value_or(kUsualSessions);; --sessions) {
    engine.model.options.sessions = sessions;
    try {
      auto model = engine.load();
      const link::MemoryPlan& plan = model->program.plan;
      const std::size_t cache_bytes = flags.server.prefix_cache_bytes_of(plan), all_bytes = plan.anonymous_bytes() + cache_bytes;
      if (plan.limit_bytes && all_bytes > *plan.limit_bytes)
        fail(ErrorKind::out_of_memory, "--memory", "expected room for " + std::to_string(all_bytes) + " bytes, " + std::to_string(cache_bytes) +
                                                       " of them for the prefix cache, got " + std::to_string(*plan.limit_bytes));
      return model;
    } catch (const Error& error) {
      if (error.kind != ErrorKind::out_of_memory || flags.sessions || sessions == 1) throw;
    }
  }
}

// As the help has it: the one place where it stands. "-": nothing.
std::string usual_of(const CLI::Option& option) {
  constexpr std::string_view kDefault = "default: ";
  const std::string help = option.get_description();
  const std::size_t begin = help.find(kDefault);
  if (begin == std::string::npos) return "-";
  return help.substr(begin + kDefault.size(), help.rfind(')') - begin - kDefault.size());
}

// What holds, and who said so.
void print_config(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (!name.starts_with("--") || name == "--help" || name == "--check-config") continue;
    std::string value;
    for (const std::string& result : option->results()) value += (value.empty() ? "" : " ") + result;
    const std::string source = option->count() == 0 ? "default" : is_on_line(*option) ? "flag" : option->get_envname();
    std::printf("%-24s %-24s %s\n", name.c_str(), option->count() > 0 ? value.c_str() : usual_of(*option).c_str(), source.c_str());
  }
}

// The first signal drains, the second ends at once. Threads inherit what is blocked, so this one alone hears them.
class SignalThread {
 public:
  explicit SignalThread(serve::Server& server) {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this, &server] {
      for (int heard = 0, count = 0;;) {
        sigwait(&signals_, &heard);
        if (heard == SIGUSR1 && ending_) return;
        if (heard == SIGUSR1) continue;
        if (++count > 1) std::_Exit(kCancelled);
        server.drain();
      }
    });
  }
  ~SignalThread() {
    ending_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);
    thread_.join();
  }

 private:
  sigset_t signals_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

void run(const ServeFlags& given, const CLI::App& command) {
  ServeFlags flags = given;
  flags.server.handed_over = serve::sockets_handed_over();
  for (const char* name : {"--host", "--port", "--unix"})
    if (!flags.server.handed_over.empty() && command.get_option(name)->count() > 0)
      fail(ErrorKind::usage, name, "expected nothing beside sockets that were handed over, got one");
  flags.server.access = access_of(flags);
  flags.server.has_page = !flags.no_page;
  if (flags.server.http.bodies_bytes < flags.server.http.body_bytes)
    fail(ErrorKind::usage, "--body-memory", "expected at least --max-body, " + std::to_string(flags.server.http.body_bytes) + " bytes, got " +
                                                std::to_string(flags.server.http.bodies_bytes));
  if (flags.server.shares_prefixes && flags.server.prefix_cache_bytes == std::size_t{0})
    fail(ErrorKind::usage, "--share-prefix-cache", "expected a prefix cache, got --prefix-cache off");
  if (!flags.media_hosts.empty()) {
    if (!flags.make_fetcher)
      fail(ErrorKind::usage, kAllowMediaFrom, "expected nothing, this program was cut without what fetches, got " + flags.media_hosts.front());
    flags.server.fetcher = flags.make_fetcher(flags.media_hosts);
  }
  if (flags.check_config) return print_config(command);
  std::signal(SIGPIPE, SIG_IGN);  // a client that is gone is no reason to end
  serve::Server server(flags.server, [&] { return load(flags); }, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  const SignalThread signals(server);
  server.run();
}

}  // namespace

void add_serve(CLI::App& app, MakeFetcher make_fetcher) {
  CLI::App* command = app.add_subcommand("serve", "Answer over HTTP, as OpenAI's and Anthropic's servers do");
  const auto flags = std::make_shared<ServeFlags>();
  serve::ServerOptions& server = flags->server;
  flags->make_fetcher = make_fetcher;
  flags->engine.add_to(*command);
  add_image_tokens(*command, flags->engine.model.image_tokens);
  auto* host = command->add_option("--host", server.host, "address to listen on (default: 127.0.0.1)");
  auto* port = add_number(*command, "--port", server.port, 0, 65535, "0: a free one", "8080");
  add_path(*command, "--unix", server.unix_path, "FILE", "listen on a Unix socket instead")->excludes(host)->excludes(port);
  command->add_option("--alias", server.aliases, "name of the model, instead of its folder's; '*': any; may be repeated")->allow_extra_args(false)->take_all();
  add_path(*command, "--api-key-file", flags->key_file, "FILE", "lines with a name and a key; without it, or LAPIDARY_API_KEY, everybody on this machine may ask");
  command->add_flag("--no-key", flags->no_key, "let everybody in who can reach --host");
  command->add_option("--allowed-host", server.access.hosts, "name that requests may have for this server; may be repeated")->allow_extra_args(false)->take_all();
  command->add_option("--cors-origin", server.access.origins, "origin of pages that may ask; may be repeated")->allow_extra_args(false)->take_all();
  command->add_option(kAllowMediaFrom, flags->media_hosts, "host that pictures may be fetched from, over https; may be repeated")
      ->type_name("HOST")->allow_extra_args(false)->take_all();
  add_number(*command, "--sessions", flags->sessions, 1, kMaxSessions, "answers at a time, each with K/V for --context tokens", "as many as fit, up to 4");
  add_number(*command, "--queue", server.queue, 0, 100000, "requests that may wait", "64");
  add_number(*command, "--queue-timeout", server.queue_timeout_s, kLeastQueueSeconds, 1e6, "seconds that one may wait", "60");
  add_number(*command, "--request-timeout", server.request_timeout_s, 0.0, 1e6, "seconds that an answer may take, 0: any", "600");
  add_number(*command, "--drain-timeout", server.drain_timeout_s, 0.0, 1e6, "seconds for running answers after SIGTERM", "30");
  command->add_option_function<std::string>("--max-body", [flags](const std::string& text) { flags->server.http.body_bytes = parse_bytes("--max-body", text); },
                                            "of a request (default: 32M)")->type_name("BYTES");
  command->add_option_function<std::string>("--body-memory", [flags](const std::string& text) { flags->server.http.bodies_bytes = parse_bytes("--body-memory", text); },
                                            "of all requests that are read or wait, with their pictures and sounds (default: 256M)")->type_name("BYTES");
  command->add_option_function<std::string>(
      "--prefix-cache", [flags](const std::string& text) { flags->server.prefix_cache_bytes = text == "off" ? 0 : parse_bytes("--prefix-cache", text); },
      "memory for beginnings of texts that may come again, or off (default: K/V of two sessions)")->type_name("BYTES");
  command->add_flag("--share-prefix-cache", server.shares_prefixes, "among all keys: they can tell by time what others asked");
  command->add_flag("--no-page", flags->no_page, "no chat page at /");
  command->add_flag("--think", server.thinks, "let the model think unless a request says otherwise");
  command->add_flag("--check-config", flags->check_config, "show what holds and who said so, and end");
  for (CLI::Option* option : command->get_options())
    if (option->get_name().starts_with("--")) option->envname(variable_of("serve-" + option->get_name().substr(2)));
  command->callback([flags, command] { run(*flags, *command); });
}

}  // namespace lapidary::cli
