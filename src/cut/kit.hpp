// What a program is cut with: headers, a library of everything but graph and manifest, and the compiler of this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace lapidary::cut {

enum class Product { program, static_program, shared_library, static_library };

struct Kit {
  // Of files: what decodes them, for models with this sense.
  struct Format {
    std::string decoder;  // its entry in media::Decoders, as code
    graph::Sense sense{};
    std::vector<std::string> libraries;
    std::optional<std::vector<std::string>> static_libraries{};  // none: a static program does without it
  };

  std::string folder;
  std::string compiler;                       // as it is found on the path
  // A word that begins with a slash is one of the kit's own files.
  std::vector<std::string> arguments;                         // to compile and to link
  std::vector<std::string> link_arguments, shared_arguments;  // the latter in place of the archive, for a shared library
  std::vector<std::string> libraries, static_libraries;
  std::vector<Format> formats;

  // Beside this program: in its build folder, or where it was installed. `compiler` in place of the kit's, unless empty.
  static Kit find(const std::string& compiler);
  std::vector<Format> formats_for(const graph::Graph& graph, Product product) const;
};

// Compiles `code` to a stripped file at `out`; `work` is a folder for what is needed in between.
void compile(const Kit& kit, const std::vector<Kit::Format>& formats, const std::string& code, Product product, const std::string& work, const std::string& out);

}  // namespace lapidary::cut
