// Shared libraries that are opened when they are needed: what few use costs no start.
#pragma once

#include <dlfcn.h>

#include <string>

namespace lapidary {

// Of the version whose headers were compiled with: by name, or in `folder`, where it lay then. Null: dlerror() says why.
inline void* open_library(const std::string& name, int version, const std::string& folder) {
#ifdef __APPLE__
  const std::string file = "lib" + name + "." + std::to_string(version) + ".dylib";
#else
  const std::string file = "lib" + name + ".so." + std::to_string(version);
#endif
  void* found = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return found ? found : dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

inline std::string library_fault() {
  const char* error = dlerror();
  return error ? error : "an unknown fault";
}

}  // namespace lapidary
