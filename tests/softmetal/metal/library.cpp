#include "metal/library.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <link.h>
#include <mutex>
#include <set>
#include <sys/file.h>
#include <unistd.h>

#include "metal/device.hpp"

namespace softmetal {
namespace {

const std::string kRoot = SOFTMETAL_ROOT;

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t hash_of(const std::string& text, std::uint64_t hash = 1469598103934665603u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// Of everything that translates and compiles shaders: when it changes, what was compiled before no longer counts.
std::uint64_t tools_hash() {
  std::uint64_t hash = hash_of("");
  std::vector<std::string> paths{kRoot + "/build-library"};
  for (const char* folder : {"/shim", "/shim/cpu", "/translator"})
    for (const auto& entry : std::filesystem::directory_iterator(kRoot + folder))
      if (entry.is_regular_file()) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) hash = hash_of(read_all(path), hash);
  return hash;
}

// Holds off other programs; one that ends lets go.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (::flock(file_, LOCK_EX) != 0) fail("no lock on " + path);
  }
  ~FileLock() { ::close(file_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

struct Compiled {
  std::string path;  // "" when it failed
  std::string message;
};

// Compiled once for each text and way to compile it, also when several programs ask at a time: the others wait for the first.
Compiled compile(const std::string& text, const std::string& flags) {
  static const std::uint64_t tools = tools_hash();
  const Settings& how = settings();
  char name[32];
  std::snprintf(name, sizeof name, "/%016lx",
                static_cast<unsigned long>(
                    hash_of(text + '\n' + flags + '\n' + how.compiler + '\n' + (how.check ? "checked" : ""), tools)));
  const std::string result = how.cache + name + ".so", own = how.cache + name + "." + std::to_string(::getpid());
  if (::access(result.c_str(), R_OK) == 0) return {result, ""};
  static std::mutex failing;
  static std::set<std::string> failed;  // a text that does not compile takes its time, and its message is said once
  const std::lock_guard one_by_one(failing);
  if (failed.contains(name)) return {"", "a text that did not compile before"};
  std::filesystem::create_directories(how.cache);
  const FileLock lock(how.cache + name + ".lock");
  if (::access(result.c_str(), R_OK) == 0) return {result, ""};
  std::ofstream(own + ".metal", std::ios::binary) << text;
  const std::string command = "sh '" + kRoot + "/build-library' '" + own + ".metal' '" + own + ".so' " +
                              (how.check ? "checked" : "plain") + " '" + how.compiler + "' " + flags + " > '" + own +
                              ".log' 2>&1";
  const bool good = std::system(command.c_str()) == 0;
  const std::string message = read_all(own + ".log");
  if (good) std::filesystem::rename(own + ".so", result);
  else failed.insert(name);
  for (const char* suffix : {".metal", ".so", ".log"}) std::filesystem::remove(own + suffix);
  return {good ? result : "", message};
}

// Where the object lies in memory.
void find_extent(void* handle, ShaderLibrary& library) {
  link_map* map = nullptr;
  ::dlinfo(handle, RTLD_DI_LINKMAP, &map);
  struct Search {
    std::uintptr_t base;
    ShaderLibrary& library;
  } search{map->l_addr, library};
  ::dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        if (object->dlpi_addr != wanted.base) return 0;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& segment = object->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          const std::uintptr_t begin = wanted.base + segment.p_vaddr;
          if (!wanted.library.begin) wanted.library.begin = begin;
          wanted.library.end = begin + segment.p_memsz;
        }
        return 1;
      },
      &search);
}

struct TypeName {
  MTL::DataType type;
  const char* name;
  std::size_t bytes;
};
constexpr TypeName kTypes[] = {
    {MTL::DataTypeBool, "bool", 1},   {MTL::DataTypeChar, "char", 1},     {MTL::DataTypeUChar, "uchar", 1},
    {MTL::DataTypeShort, "short", 2}, {MTL::DataTypeUShort, "ushort", 2}, {MTL::DataTypeHalf, "half", 2},
    {MTL::DataTypeInt, "int", 4},     {MTL::DataTypeUInt, "uint", 4},     {MTL::DataTypeFloat, "float", 4},
    {MTL::DataTypeLong, "long", 8},   {MTL::DataTypeULong, "ulong", 8},   {MTL::DataTypeFloat4, "float4", 16},
};

const TypeName& name_of(MTL::DataType type) {
  for (const TypeName& known : kTypes)
    if (known.type == type) return known;
  fail("the software device lacks function constants of data type " + std::to_string(type));
}

}  // namespace

void FunctionConstantValues::set_by_index(const void* value, MTL::DataType type, NS::UInteger index) {
  by_index[index] = {type, std::string(static_cast<const char*>(value), name_of(type).bytes)};
}
void FunctionConstantValues::set_by_name(const void* value, MTL::DataType type, const NS::String* name) {
  by_name[text_of(name)] = {type, std::string(static_cast<const char*>(value), name_of(type).bytes)};
}
void FunctionConstantValues::set_range(const void* values, MTL::DataType type, NS::Range range) {
  for (NS::UInteger i = 0; i < range.length; ++i)
    set_by_index(static_cast<const char*>(values) + i * name_of(type).bytes, type, range.location + i);
}
void FunctionConstantValues::reset() {
  by_index.clear();
  by_name.clear();
}

MTL::Library* library_from_file(const std::string& path, NS::Error** error) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    set_error(error, MTL::LibraryErrorFileNotFound, ::dlerror());
    return nullptr;
  }
  const auto* library = static_cast<const Library*>(::dlsym(handle, "softmetal_library"));
  if (!library) {
    set_error(error, MTL::LibraryErrorUnsupported, path + " is no shader library");
    return nullptr;
  }
  auto* made = new ShaderLibrary;
  made->library = library;
  made->identity = path;
  find_extent(handle, *made);
  return api(made);
}

MTL::Library* library_from_source(const std::string& text, const CompileOptions* options, NS::Error** error) {
  if (options && options->language_version > MTL::LanguageVersion3_2) {
    set_error(error, MTL::LibraryErrorUnsupported, "the software device knows Metal 3.2 and what came before");
    return nullptr;
  }
  // Safe maths fuses a product and a sum at most inside one expression.
  const bool safe = options && options->math_mode == MTL::MathModeSafe;
  const Compiled compiled = compile(text, (safe ? "-ffp-contract=on " : "-ffp-contract=fast ") + settings().compiler_flags);
  if (compiled.path.empty()) {
    set_error(error, MTL::LibraryErrorCompileFailure, compiled.message);
    return nullptr;
  }
  return library_from_file(compiled.path, error);
}

MTL::Function* ShaderLibrary::new_function(const NS::String* name) { return new_specialised(name, nullptr, nullptr); }

MTL::Function* ShaderLibrary::new_specialised(const NS::String* name, const MTL::FunctionConstantValues* given,
                                              NS::Error** error) {
  const std::string wanted = text_of(name);
  const Kernel* kernels_end = library->kernels + library->kernel_count;
  const Kernel* kernel = std::find_if(library->kernels, kernels_end, [&](const Kernel& one) { return wanted == one.name; });
  if (kernel == kernels_end) {
    set_error(error, MTL::LibraryErrorFunctionNotFound, "there is no function " + wanted);
    return nullptr;
  }
  auto* function = new Function;
  function->library = api(this);
  function->kernel = kernel;
  function->identity = identity + " " + wanted;
  const auto refuse = [&](const std::string& what) -> MTL::Function* {
    set_error(error, MTL::LibraryErrorCompileFailure, wanted + ": function constant " + what);
    release(function);
    return nullptr;
  };
  const FunctionConstantValues* values = given ? as<FunctionConstantValues>(given) : nullptr;
  for (int i = 0; i < library->constant_count; ++i) {
    const FunctionConstant& constant = library->constants[i];
    const FunctionConstantValues::Value* value = nullptr;
    if (values) {
      if (const auto found = values->by_name.find(constant.name); found != values->by_name.end()) value = &found->second;
      if (const auto found = values->by_index.find(static_cast<NS::UInteger>(constant.index));
          found != values->by_index.end())
        value = &found->second;
    }
    const bool read = std::find(kernel->constants, kernel->constants + kernel->constant_count, constant.index) !=
                      kernel->constants + kernel->constant_count;
    if (!value && read) return refuse(std::string(constant.name) + " has no value");
    if (!value) continue;
    if (std::string(name_of(value->type).name) != constant.type)
      return refuse(std::string(constant.name) + " is of type " + constant.type + ", its value of type " +
                    name_of(value->type).name);
    ConstantValue& place = function->constants.value[constant.index];
    place.set = true;
    std::memcpy(place.bytes, value->bytes.data(), value->bytes.size());
    if (!read) continue;
    function->identity += std::string(" ") + constant.name + "=";
    for (const char byte : value->bytes) function->identity += std::to_string(static_cast<int>(byte)) + ".";
  }
  return api(function);
}

NS::Array* ShaderLibrary::function_names() const {
  std::vector<const void*> names;
  for (int i = 0; i < library->kernel_count; ++i) names.push_back(string_of(library->kernels[i].name));
  return array_of(names);
}

MTL::Device* ShaderLibrary::device() const { return the_device(); }
NS::String* Function::name() const { return string_of(kernel->name); }
MTL::Device* Function::device() const { return the_device(); }

void register_library() {
  ClassOf<CompileOptions>("MTLCompileOptions")
      .allocatable()
      .getter<&CompileOptions::language_version>(&MTL::CompileOptions::languageVersion, "languageVersion")
      .setter<&CompileOptions::language_version>(&MTL::CompileOptions::setLanguageVersion, "setLanguageVersion:")
      .getter<&CompileOptions::math_mode>(&MTL::CompileOptions::mathMode, "mathMode")
      .setter<&CompileOptions::math_mode>(&MTL::CompileOptions::setMathMode, "setMathMode:")
      .getter<&CompileOptions::math_functions>(&MTL::CompileOptions::mathFloatingPointFunctions,
                                               "mathFloatingPointFunctions")
      .setter<&CompileOptions::math_functions>(&MTL::CompileOptions::setMathFloatingPointFunctions,
                                               "setMathFloatingPointFunctions:")
      .getter<&CompileOptions::preserve_invariance>(&MTL::CompileOptions::preserveInvariance, "preserveInvariance")
      .setter<&CompileOptions::preserve_invariance>(&MTL::CompileOptions::setPreserveInvariance, "setPreserveInvariance:");
  ClassOf<FunctionConstantValues>("MTLFunctionConstantValues")
      .allocatable()
      .method<&FunctionConstantValues::set_by_index>(&MTL::FunctionConstantValues::setConstantValue,
                                                     "setConstantValue:type:atIndex:")
      .method<&FunctionConstantValues::set_by_name>(&MTL::FunctionConstantValues::setConstantValue,
                                                    "setConstantValue:type:withName:")
      .method<&FunctionConstantValues::set_range>(&MTL::FunctionConstantValues::setConstantValues,
                                                  "setConstantValues:type:withRange:")
      .method<&FunctionConstantValues::reset>(&MTL::FunctionConstantValues::reset, "reset");
  ClassOf<ShaderLibrary>("MTLLibrary")
      .label()
      .method<&ShaderLibrary::new_function>(&MTL::Library::newFunction, "newFunctionWithName:")
      .method<&ShaderLibrary::new_specialised>(&MTL::Library::newFunction, "newFunctionWithName:constantValues:error:")
      .method<&ShaderLibrary::function_names>(&MTL::Library::functionNames, "functionNames")
      .method<&ShaderLibrary::device>(&MTL::Library::device, "device");
  ClassOf<Function>("MTLFunction")
      .label()
      .method<&Function::name>(&MTL::Function::name, "name")
      .method<&Function::type>(&MTL::Function::functionType, "functionType")
      .method<&Function::device>(&MTL::Function::device, "device");
}

}  // namespace softmetal
