// That a method of the wrong type is refused when this library is compiled.
#include <Metal/Metal.hpp>

#include "runtime/foundation.hpp"

namespace softmetal {
namespace {

struct Sample : Implements<Sample, MTL::Buffer> {
  Ref<NS::String> label;
  NS::UInteger length = 0;
  int narrow = 0;

  void* contents() { return nullptr; }
  int narrow_result() { return 0; }
  void change(NS::Range) {}
  void change_by_pointer(NS::Range*) {}
  static NS::String* text(const char*, NS::StringEncoding) { return nullptr; }
};

template <auto Method, auto Declared>
constexpr bool kMethodFits = requires(ClassOf<Sample>& type) { type.method<Method>(Declared, ""); };
template <auto Field, auto Declared>
constexpr bool kGetterFits = requires(ClassOf<Sample>& type) { type.getter<Field>(Declared, ""); };
template <auto Field, auto Declared>
constexpr bool kSetterFits = requires(ClassOf<Sample>& type) { type.setter<Field>(Declared, ""); };

static_assert(kMethodFits<&Sample::contents, &MTL::Buffer::contents>);
static_assert(!kMethodFits<&Sample::narrow_result, &MTL::Buffer::length>);
static_assert(kMethodFits<&Sample::change, &MTL::Buffer::didModifyRange>);
static_assert(!kMethodFits<&Sample::change_by_pointer, &MTL::Buffer::didModifyRange>);
static_assert(!kMethodFits<&Sample::contents, &MTL::Buffer::didModifyRange>);
static_assert(!kMethodFits<&Sample::contents, &MTL::Texture::buffer>);
static_assert(kGetterFits<&Sample::length, &MTL::Buffer::length>);
static_assert(!kGetterFits<&Sample::narrow, &MTL::Buffer::length>);
static_assert(kSetterFits<&Sample::label, &MTL::Buffer::setLabel>);
static_assert(!kSetterFits<&Sample::length, &MTL::Buffer::setLabel>);

}  // namespace
}  // namespace softmetal
