#include "cut/kit.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/own_path.hpp"
#include "text/value.hpp"

extern char** environ;

namespace lapidary::cut {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> texts(const text::Value& object, const char* key, const std::string& where) {
  const text::Value* list = object.find(key);
  if (!list || !list->array()) fail(ErrorKind::missing_key, where, std::string(key) + ", expected a list of texts");
  std::vector<std::string> all;
  for (const text::Value& item : *list->array())
    if (item.string()) all.push_back(*item.string());
  return all;
}

Kit::Format format_of(const text::Value& object, const std::string& where) {
  Kit::Format format{.decoder = texts(object, "decoder", where).front(),
                     .sense = texts(object, "sense", where).front() == "vision" ? graph::Sense::vision : graph::Sense::audio,
                     .libraries = texts(object, "libraries", where)};
  if (object.find("static_libraries")) format.static_libraries = texts(object, "static_libraries", where);
  return format;
}

std::string find_folder() {
  for (fs::path folder = own_path().parent_path(); folder != folder.root_path(); folder = folder.parent_path())
    for (const char* place : {"src/cut", LAPIDARY_KIT})
      if (std::error_code none; fs::exists(folder / place / "kit.json", none)) return (folder / place).string();
  fail(ErrorKind::io, "cut", "expected headers and libraries to cut with in " LAPIDARY_KIT " beside this program, got none");
}

// Runs a program; what it says goes to `log`.
void run(const std::vector<std::string>& words, const std::string& log, const std::string& what) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed)
    fail(ErrorKind::io, "cut", what + ", expected to run " + words[0] + ", got: " + std::strerror(failed) +
                                   "; install it, or name another by --compiler");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (status == 0) return;
  std::string said = read_text_file(log).substr(0, 2000);
  fail(ErrorKind::io, "cut", what + ", expected " + words[0] + " to succeed, got: " + said);
}

}  // namespace

Kit Kit::find(const std::string& compiler) {
  Kit kit;
  kit.folder = find_folder();
  if (!fs::exists(kit.folder + "/liblapidary-gem.a")) fail(ErrorKind::io, kit.folder, "expected liblapidary-gem.a to cut with, got none");
  const std::string path = kit.folder + "/kit.json";
  const text::Value all = text::parse_json(read_text_file(path), path);
  kit.compiler = compiler.empty() ? texts(all, "compiler", path).front() : compiler;
  kit.arguments = texts(all, "arguments", path);
  kit.link_arguments = texts(all, "link_arguments", path);
  kit.shared_arguments = texts(all, "shared_arguments", path);
  kit.libraries = texts(all, "libraries", path);
  kit.static_libraries = texts(all, "static_libraries", path);
  if (const text::Value* formats = all.find("formats"); formats && formats->array())
    for (const text::Value& format : *formats->array()) kit.formats.push_back(format_of(format, path));
  return kit;
}

std::vector<Kit::Format> Kit::formats_for(const graph::Graph& graph, Product product) const {
  std::vector<Format> taken;
  for (const Format& format : formats)
    if (graph.tower(format.sense) && (product != Product::static_program || format.static_libraries)) taken.push_back(format);
  return taken;
}

void compile(const Kit& kit, const std::vector<Kit::Format>& formats, const std::string& code, Product product, const std::string& work, const std::string& out) {
  if (product == Product::static_program && kit.static_libraries.empty())
    fail(ErrorKind::unsupported, "--static", "expected a system that has static programs, got one without");
  const std::string source = work + "/gem.cpp", object = work + "/gem.o", log = work + "/log", archive = kit.folder + "/liblapidary-gem.a";
  std::ofstream(source) << code;
  std::vector<std::string> words{kit.compiler, "-std=c++20", "-O1", "-fPIC", "-c", source, "-o", object, "-I" + kit.folder + "/include"};
  words.insert(words.end(), kit.arguments.begin(), kit.arguments.end());
  run(words, log, "code");
  if (product == Product::static_library) {
    fs::copy_file(archive, out, fs::copy_options::overwrite_existing);
    return run({"ar", "rs", out, object}, log, "library");
  }
  words = {kit.compiler, object, "-o", out};
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& word : more) words.push_back(word.starts_with('/') ? kit.folder + word : word);
  };
  add(kit.link_arguments);
  add(product == Product::shared_library ? kit.shared_arguments : std::vector{std::string("/liblapidary-gem.a")});
  if (product == Product::static_program) words.push_back("-static-pie");
  for (const Kit::Format& format : formats) add(product == Product::static_program ? *format.static_libraries : format.libraries);
  add(product == Product::static_program ? kit.static_libraries : kit.libraries);
  add(kit.arguments);
  run(words, log, "linking");
}

}  // namespace lapidary::cut
