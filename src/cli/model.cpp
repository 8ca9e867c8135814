#include "cli/model.hpp"

#include <charconv>

namespace lapidary::cli {
namespace {

std::size_t parse_bytes(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string unit(rest, end);
  int shift = -1;
  if (unit.empty()) shift = 0;
  if (unit == "K") shift = 10;
  if (unit == "M") shift = 20;
  if (unit == "G") shift = 30;
  if (error != std::errc{} || shift < 0 || value > (SIZE_MAX >> shift))
    fail(ErrorKind::usage, "--memory", "expected bytes such as 900000, 512M or 8G, got '" + text + "'");
  return value << shift;
}

}  // namespace

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("CHECKPOINT", checkpoint, "folder with config.json and model.safetensors")->required();
  command.add_option("--context", options.context_tokens, "tokens to reserve K/V for (default 4096, or the model's limit)")
      ->check(CLI::PositiveNumber);
  command.add_option("--chunk", options.chunk_rows, "prompt tokens per pass (default and limit: the graph's)")
      ->check(CLI::PositiveNumber);
  command.add_option("--memory", memory, "refuse to use more anonymous memory than this, e.g. 8G");
}

link::Program ModelFlags::load() const {
  link::Options resolved = options;
  if (!memory.empty()) resolved.memory_limit_bytes = parse_bytes(memory);
  Checkpoint opened = Checkpoint::open(checkpoint);
  const graph::Graph& graph = link::find_graph(opened);
  return link::link(std::move(opened), graph, resolved);
}

}  // namespace lapidary::cli
