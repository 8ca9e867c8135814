// Stands in for Apple's header: what metal-cpp uses of the Objective-C runtime.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__aarch64__) && !defined(__arm64__)
#define __arm64__ 1  // by this name metal-cpp chooses its calling convention
#endif

#ifdef __cplusplus
extern "C" {
#endif
typedef struct objc_class* Class;
struct objc_object {
  Class isa;
};
typedef struct objc_object* id;
typedef struct objc_selector* SEL;
typedef struct objc_object Protocol;
typedef void (*IMP)(void);
typedef bool BOOL;

Class objc_lookUpClass(const char* name);
Class objc_getClass(const char* name);
Protocol* objc_getProtocol(const char* name);
SEL sel_registerName(const char* name);
const char* sel_getName(SEL selector);
const char* class_getName(Class cls);
const char* object_getClassName(id object);
#ifdef __cplusplus
}
#endif
