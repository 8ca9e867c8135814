// What a program is cut with: headers, a library of everything but graph and manifest, and the compiler of this machine.
#pragma once

#include <string>
#include <vector>

namespace lapidary::cut {

struct Kit {
  std::string folder;
  std::string compiler;                       // as it is found on the path
  // A word that begins with a slash is one of the kit's own files.
  std::vector<std::string> arguments;                         // to compile and to link
  std::vector<std::string> link_arguments, shared_arguments;  // the latter in place of the archive, for a shared library
  std::vector<std::string> libraries, static_libraries;

  // Beside this program: in its build folder, or where it was installed. `compiler` in place of the kit's, unless empty.
  static Kit find(const std::string& compiler);
};

enum class Product { program, static_program, shared_library, static_library };

// Compiles `code` to a stripped file at `out`; `work` is a folder for what is needed in between.
void compile(const Kit& kit, const std::string& code, Product product, const std::string& work, const std::string& out);

}  // namespace lapidary::cut
