// A small Objective-C object model: classes, selectors, objects that are counted, pools.
#pragma once

#include <objc/message.h>
#include <objc/runtime.h>

#include <atomic>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/settings.hpp"

namespace softmetal {
struct Object;
}

struct objc_selector {
  std::string name;
  std::atomic<unsigned long> messages{0};
};

// Also an object, whose class holds the class methods.
struct objc_class {
  objc_class* isa = nullptr;
  std::string name;
  objc_class* super = nullptr;
  bool missing = false;  // metal-cpp knows it, this device does not: an error when used
  std::unordered_map<SEL, IMP> methods;
  std::atomic<long> live{0};
  softmetal::Object* (*create)() = nullptr;
  void (*destroy)(softmetal::Object*) = nullptr;
};

namespace softmetal {

// What every object begins with. No virtual functions: constant strings, which the compiler lays out, begin with the class
// alone.
struct Object {
  objc_class* isa;
  std::atomic<long> references{1};

  explicit Object(objc_class* type) : isa(type) { ++isa->live; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

// Of any object, constant strings and null included.
void retain(const void* object);
void release(const void* object);
void autorelease(const void* object);

// Objects that are handed out inside without the host asking, such as to a completion handler, need a pool as well.
class AutoreleaseScope {
 public:
  AutoreleaseScope();
  ~AutoreleaseScope();
  AutoreleaseScope(const AutoreleaseScope&) = delete;
  AutoreleaseScope& operator=(const AutoreleaseScope&) = delete;
};

// A counted pointer to an object, by the type metal-cpp gives it.
template <class Api>
class Ref {
 public:
  using Target = Api;

  Ref() = default;
  Ref(const Api* object) : object_(const_cast<Api*>(object)) { retain(object_); }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { release(object_); }

  Api* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Api* object_ = nullptr;
};

// The base of an implementation: `Self` is ours, `ApiClass` the class of metal-cpp that the host sees.
template <class Self, class ApiClass>
struct Implements : Object {
  using Api = ApiClass;
  static inline objc_class* metal_class = nullptr;  // set when the class is registered

  Implements() : Object(metal_class) {}
};

// From metal-cpp's type to ours and back.
template <class T>
T* as(const typename T::Api* object) {
  return reinterpret_cast<T*>(const_cast<typename T::Api*>(object));
}
template <class T>
typename T::Api* api(T* object) {
  return reinterpret_cast<typename T::Api*>(object);
}
// An object that the host gets without owning it.
template <class T>
typename T::Api* autoreleased(T* object) {
  autorelease(object);
  return api(object);
}

objc_class& register_class(const char* name);
void add_method(objc_class& type, const char* selector, IMP method);

// A method of ours and the two types metal-cpp may declare it with.
template <class Self, class Api, class Method>
struct Signature;

template <class Self, class Api, class Owner, class Result, class... Arguments>
struct Signature<Self, Api, Result (Owner::*)(Arguments...)> {
  using Declared = Result (Api::*)(Arguments...);
  using DeclaredConst = Result (Api::*)(Arguments...) const;

  template <auto Method>
  static Result call(Self* self, SEL, Arguments... arguments) {
    return (self->*Method)(arguments...);
  }
};

template <class Self, class Api, class Owner, class Result, class... Arguments>
struct Signature<Self, Api, Result (Owner::*)(Arguments...) const> : Signature<Self, Api, Result (Owner::*)(Arguments...)> {
};

template <class Function>
struct ClassSignature;

template <class Result, class... Arguments>
struct ClassSignature<Result (*)(Arguments...)> {
  template <auto Function>
  static Result call(objc_class*, SEL, Arguments... arguments) {
    return Function(arguments...);
  }
};

// A field of ours as a property: the type that it has at the host.
template <class Field>
struct Property {
  using Get = Field;
  using Set = Field;
  static Get get(const Field& field) { return field; }
  static void set(Field& field, Set value) { field = value; }
};

template <class Api>
struct Property<Ref<Api>> {
  using Get = Api*;
  using Set = const Api*;
  static Get get(const Ref<Api>& field) { return field.get(); }
  static void set(Ref<Api>& field, Set value) { field = Ref<Api>(value); }
};

template <class Member>
struct MemberOf;
template <class Owner, class Field>
struct MemberOf<Field Owner::*> {
  using Type = Field;
};
template <auto Field>
using FieldType = typename MemberOf<decltype(Field)>::Type;

// Registers a class. Every method is named together with metal-cpp's own declaration of it: when the types differ, this
// does not compile. Of several overloads the one that fits is taken.
template <class Self>
class ClassOf {
 public:
  using Api = typename Self::Api;

  explicit ClassOf(const char* name) : type_(register_class(name)) {
    Self::metal_class = &type_;
    type_.destroy = [](Object* object) { delete static_cast<Self*>(object); };
  }

  // The host may write alloc()->init().
  ClassOf& allocatable() {
    type_.create = []() -> Object* { return new Self; };
    return *this;
  }

  template <auto Method>
  ClassOf& method(typename Signature<Self, Api, decltype(Method)>::Declared, const char* selector) {
    return add<Method>(selector);
  }
  template <auto Method>
  ClassOf& method(typename Signature<Self, Api, decltype(Method)>::DeclaredConst, const char* selector) {
    return add<Method>(selector);
  }

  template <auto Function>
  ClassOf& class_method(decltype(Function), const char* selector) {
    add_method(*type_.isa, selector,
               reinterpret_cast<IMP>(
                   &ClassSignature<decltype(Function)>::template call<static_cast<decltype(Function)>(Function)>));
    return *this;
  }

  template <auto Field>
  ClassOf& getter(typename Property<FieldType<Field>>::Get (Api::*)() const, const char* selector) {
    add_method(type_, selector, reinterpret_cast<IMP>(&get<Field>));
    return *this;
  }
  template <auto Field>
  ClassOf& setter(void (Api::*)(typename Property<FieldType<Field>>::Set), const char* selector) {
    add_method(type_, selector, reinterpret_cast<IMP>(&set<Field>));
    return *this;
  }

  // Most objects have a label, and it can be read back.
  ClassOf& label_getter() { return getter<&Self::label>(&Api::label, "label"); }
  ClassOf& label() { return label_getter().template setter<&Self::label>(&Api::setLabel, "setLabel:"); }

 private:
  template <auto Method>
  ClassOf& add(const char* selector) {
    add_method(type_, selector, reinterpret_cast<IMP>(&Signature<Self, Api, decltype(Method)>::template call<Method>));
    return *this;
  }
  template <auto Field>
  static typename Property<FieldType<Field>>::Get get(Self* self, SEL) {
    return Property<FieldType<Field>>::get(self->*Field);
  }
  template <auto Field>
  static void set(Self* self, SEL, typename Property<FieldType<Field>>::Set value) {
    Property<FieldType<Field>>::set(self->*Field, value);
  }

  objc_class& type_;
};

}  // namespace softmetal
