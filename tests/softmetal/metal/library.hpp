// Shader libraries: text that is translated and compiled, the functions in it, and the constants that specialise them.
#pragma once

#include <Metal/Metal.hpp>

#include <map>
#include <string>

#include "runtime/foundation.hpp"
#include "shim/abi.h"

namespace softmetal {

struct CompileOptions : Implements<CompileOptions, MTL::CompileOptions> {
  MTL::LanguageVersion language_version = MTL::LanguageVersion3_2;
  MTL::MathMode math_mode = MTL::MathModeFast;
  MTL::MathFloatingPointFunctions math_functions = MTL::MathFloatingPointFunctionsFast;
  bool preserve_invariance = false;
};

struct FunctionConstantValues : Implements<FunctionConstantValues, MTL::FunctionConstantValues> {
  struct Value {
    MTL::DataType type;
    std::string bytes;
  };
  std::map<NS::UInteger, Value> by_index;
  std::map<std::string, Value> by_name;

  void set_by_index(const void* value, MTL::DataType type, NS::UInteger index);
  void set_by_name(const void* value, MTL::DataType type, const NS::String* name);
  void set_range(const void* values, MTL::DataType type, NS::Range range);
  void reset();
};

struct ShaderLibrary : Implements<ShaderLibrary, MTL::Library> {
  Ref<NS::String> label;
  const Library* library = nullptr;                // in the loaded object, which is never unloaded
  std::uintptr_t begin = 0, end = 0;               // of the loaded object: tables in constant memory lie there
  std::string identity;                            // of its text and how it was compiled

  MTL::Function* new_function(const NS::String* name);
  MTL::Function* new_specialised(const NS::String* name, const MTL::FunctionConstantValues* values, NS::Error** error);
  NS::Array* function_names() const;
  MTL::Device* device() const;
};

struct Function : Implements<Function, MTL::Function> {
  Ref<NS::String> label;
  Ref<MTL::Library> library;
  const Kernel* kernel = nullptr;
  ConstantValues constants{};
  std::string identity;                            // of the library, the name and the constants

  NS::String* name() const;
  MTL::FunctionType type() const { return MTL::FunctionTypeKernel; }
  MTL::Device* device() const;
};

MTL::Library* library_from_source(const std::string& text, const CompileOptions* options, NS::Error** error);
MTL::Library* library_from_file(const std::string& path, NS::Error** error);

void register_library();

}  // namespace softmetal
