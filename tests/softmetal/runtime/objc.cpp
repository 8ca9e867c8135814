#include "runtime/objc.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/foundation.hpp"
#include "softmetal.h"

// Of the thread sanitizer, null in a program without it. It does not see the counts of objects here, as this library is not
// sanitized, and would take what one thread did with an object and freeing it in another for a race.
extern "C" {
__attribute__((weak)) void AnnotateHappensBefore(const char* file, int line, const volatile void* object);
__attribute__((weak)) void AnnotateHappensAfter(const char* file, int line, const volatile void* object);
}

namespace softmetal {
namespace {

// Never freed: the host's objects may be released after our own statics are gone.
struct Tables {
  std::mutex lock;
  std::unordered_map<std::string, SEL> selectors;
  std::map<std::string, objc_class*> classes;
};

Tables& tables() {
  static Tables* const one = new Tables;
  return *one;
}

void set_up(objc_class& type, const std::string& name, objc_class* super) {
  type.name = name;
  type.super = super;
  type.isa = new objc_class;
  type.isa->name = name;
  type.isa->super = super ? super->isa : nullptr;
}

IMP find(const objc_class* type, SEL selector) {
  for (; type; type = type->super) {
    const auto found = type->methods.find(selector);
    if (found != type->methods.end()) return found->second;
  }
  return nullptr;
}

// A pool is a place in the list of objects that a thread has to release.
thread_local std::vector<const void*> pending;
thread_local std::vector<std::size_t> pools;

void drain_last_pool() {
  // Releasing may autorelease more.
  while (pending.size() > pools.back()) {
    const void* object = pending.back();
    pending.pop_back();
    release(object);
  }
  pools.pop_back();
}

struct Pool : Implements<Pool, NS::AutoreleasePool> {
  std::size_t depth = 0;

  NS::AutoreleasePool* init() {
    pools.push_back(pending.size());
    depth = pools.size();
    return api(this);
  }
  void drain() {
    if (pools.size() != depth) fail("autorelease pools must be drained in the reverse of their order");
    drain_last_pool();
    softmetal::release(this);
  }
};

objc_class& zombie_class() {
  static objc_class* const one = [] {
    auto* type = new objc_class;
    set_up(*type, "(freed object)", nullptr);
    return type;
  }();
  return *one;
}

bool is_constant(const Object* object) { return object->isa == &constant_string_class(); }

// Methods of NSObject. metal-cpp declares them in a way that cannot be named from outside, so their types are ours to keep
// right.
template <class Method>
void add_root_method(objc_class& type, const char* selector, Method method) {
  add_method(type, selector, reinterpret_cast<IMP>(+method));
}

objc_class& root() {
  static objc_class* const one = [] {
    auto* type = new objc_class;
    set_up(*type, "NSObject", nullptr);
    tables().classes["NSObject"] = type;
    add_root_method(*type, "retain", [](Object* self, SEL) -> Object* {
      retain(self);
      return self;
    });
    add_root_method(*type, "release", [](Object* self, SEL) { release(self); });
    add_root_method(*type, "autorelease", [](Object* self, SEL) -> Object* {
      autorelease(self);
      return self;
    });
    add_root_method(*type, "retainCount", [](Object* self, SEL) { return static_cast<NS::UInteger>(self->references); });
    add_root_method(*type, "init", [](Object* self, SEL) { return self; });
    add_root_method(*type, "hash", [](Object* self, SEL) { return reinterpret_cast<NS::UInteger>(self); });
    add_root_method(*type, "isEqual:", [](Object* self, SEL, const Object* other) { return self == other; });
    add_root_method(
        *type, "respondsToSelector:", [](Object* self, SEL, SEL selector) { return find(self->isa, selector) != nullptr; });
    add_root_method(
        *type, "methodSignatureForSelector:", [](Object* self, SEL, SEL selector) { return find(self->isa, selector); });
    add_root_method(*type, "description", [](Object* self, SEL) { return string_of("<" + self->isa->name + ">"); });
    add_root_method(*type->isa, "alloc", [](objc_class* self, SEL) -> Object* {
      if (!self->create) fail("+[" + self->name + " alloc]: the host cannot make objects of this class");
      return self->create();
    });
    return type;
  }();
  return *one;
}

// Prints at the end of the program, when asked to.
struct Report {
  ~Report() {
    if (!settings().report) return;
    std::fprintf(stderr, "softmetal: messages by selector\n");
    std::map<std::string, unsigned long> counts;
    for (const auto& [name, selector] : tables().selectors) counts[name] = selector->messages;
    for (const auto& [name, count] : counts)
      if (count > 0) std::fprintf(stderr, "%10lu %s\n", count, name.c_str());
    for (const auto& [name, type] : tables().classes)
      if (type->live > 0)
        std::fprintf(stderr, "softmetal: %ld objects of class %s were never freed\n", type->live.load(), name.c_str());
  }
} report;

}  // namespace

objc_class& register_class(const char* name) {
  objc_class*& type = tables().classes[name];
  if (!type) type = new objc_class;
  set_up(*type, name, &root());
  return *type;
}

void adopt_class(objc_class& type, const char* name) { set_up(type, name, &root()); }

void add_method(objc_class& type, const char* selector, IMP method) { type.methods[sel_registerName(selector)] = method; }

void retain(const void* object) {
  auto* self = const_cast<Object*>(static_cast<const Object*>(object));
  if (self && !is_constant(self)) ++self->references;
}

void release(const void* object) {
  auto* self = const_cast<Object*>(static_cast<const Object*>(object));
  if (!self || is_constant(self)) return;
  if (AnnotateHappensBefore) AnnotateHappensBefore(__FILE__, __LINE__, self);
  if (--self->references > 0) return;
  if (AnnotateHappensAfter) AnnotateHappensAfter(__FILE__, __LINE__, self);
  objc_class* type = self->isa;
  --type->live;
  if (settings().zombies) self->isa = &zombie_class();
  else type->destroy(self);
}

void autorelease(const void* object) {
  if (pools.empty())
    fail("object of class " + static_cast<const Object*>(object)->isa->name + " autoreleased with no pool in place");
  pending.push_back(object);
}

AutoreleaseScope::AutoreleaseScope() { pools.push_back(pending.size()); }
AutoreleaseScope::~AutoreleaseScope() { drain_last_pool(); }

void register_pool() {
  ClassOf<Pool>("NSAutoreleasePool")
      .allocatable()
      .method<&Pool::init>(&NS::AutoreleasePool::init, "init")
      .method<&Pool::drain>(&NS::AutoreleasePool::drain, "drain")
      .method<&Pool::drain>(&NS::AutoreleasePool::release, "release");
}

}  // namespace softmetal

using softmetal::tables;

extern "C" {

SEL sel_registerName(const char* name) {
  const std::lock_guard guard(tables().lock);
  SEL& selector = tables().selectors[name];
  if (!selector) selector = new objc_selector{name};
  return selector;
}

const char* sel_getName(SEL selector) { return selector->name.c_str(); }
const char* class_getName(Class type) { return type ? type->name.c_str() : "nil"; }
const char* object_getClassName(id object) { return object ? object->isa->name.c_str() : "nil"; }

// metal-cpp looks up all of its classes when the program starts; one that is not here stops the program only when used.
Class objc_lookUpClass(const char* name) {
  objc_class*& type = tables().classes[name];
  if (!type) {
    type = new objc_class;
    softmetal::set_up(*type, name, nullptr);
    type->isa->missing = true;
  }
  return type;
}

Class objc_getClass(const char* name) { return objc_lookUpClass(name); }
Protocol* objc_getProtocol(const char*) { return nullptr; }

// Called by objc_msgSend: the method of this object.
IMP softmetal_lookup(softmetal::Object* self, SEL selector) {
  const IMP method = softmetal::find(self->isa, selector);
  if (!method) {
    const std::string message = "-[" + self->isa->name + " " + selector->name + "]: ";
    if (self->isa == &softmetal::zombie_class()) softmetal::fail(message + "message to a freed object");
    softmetal::fail(
        message + (self->isa->missing ? "the software device lacks this class" : "the software device lacks this method"));
  }
  selector->messages.fetch_add(1, std::memory_order_relaxed);
  return method;
}

unsigned long softmetal_message_count(const char* selector) {
  if (selector) return sel_registerName(selector)->messages;
  const std::lock_guard guard(tables().lock);
  unsigned long count = 0;
  for (const auto& [name, known] : tables().selectors) count += known->messages;
  return count;
}

long softmetal_live_objects(const char* class_name) { return objc_lookUpClass(class_name)->live; }

}  // extern "C"
