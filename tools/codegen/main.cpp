// lapidary-codegen: turns the description of a Gemma 4 model into the constexpr tables of its graph.
//
//   lapidary-codegen graph PATH[+DRAFTER...] SYMBOL OUT.cpp [OUT.txt]
//   lapidary-codegen registry OUT.cpp SYMBOL...
//
// PATH is a graph description (graphs/*.json), a config.json file or a checkpoint folder, DRAFTER the config or folder of one of its
// drafters. OUT.txt receives the human-readable listing.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ranges>
#include <sstream>

#include "checkpoint/error.hpp"
#include "graph/listing.hpp"
#include "stages.hpp"

namespace lapidary::codegen {
namespace {

void write_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  if (!(file << text).flush()) fail(ErrorKind::io, path, "cannot write");
  std::filesystem::rename(part, path);
}

int run(std::vector<std::string> args) {
  if (args.size() >= 4 && args[0] == "graph") {
    std::vector<std::string> paths;
    for (const auto part : std::views::split(args[1], '+')) paths.emplace_back(part.begin(), part.end());
    const Built built(read_model(paths.front(), {paths.begin() + 1, paths.end()}));
    std::ostringstream code, listing;
    emit_graph(code, built.graph(), args[2]);
    write_file(args[3], code.str());
    graph::write_listing(listing, built.graph());
    if (args.size() > 4) write_file(args[4], listing.str());
    return 0;
  }
  if (args.size() >= 2 && args[0] == "registry") {
    std::ostringstream code;
    emit_registry(code, {args.begin() + 2, args.end()});
    write_file(args[1], code.str());
    return 0;
  }
  fail(ErrorKind::usage, "codegen",
       "expected 'graph PATH[+DRAFTER...] SYMBOL OUT.cpp [OUT.txt]' or 'registry OUT.cpp SYMBOL...'");
}

}  // namespace
}  // namespace lapidary::codegen

int main(int argc, char** argv) {
  try {
    return lapidary::codegen::run({argv + 1, argv + argc});
  } catch (const lapidary::Error& error) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[codegen] %s\n", error.what());
  }
  return 1;
}
