// The classes of Foundation that Metal's own interfaces speak of.
#pragma once

#include <Foundation/Foundation.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "runtime/objc.hpp"

namespace softmetal {

struct String : Implements<String, NS::String> {
  std::string text;

  static NS::String* empty();
  static NS::String* with_c_string(const char* text, NS::StringEncoding encoding);
  static NS::String* with_string(const NS::String* other);
  NS::String* init_with_c_string(const char* text, NS::StringEncoding encoding);
  NS::UInteger length() const { return text.size(); }
  const char* utf8() const { return text.c_str(); }
  const char* c_string(NS::StringEncoding) const { return text.c_str(); }
  bool is_equal(const NS::String* other) const;
  NS::String* appending(const NS::String* other) const;
};

struct Error : Implements<Error, NS::Error> {
  Ref<NS::String> domain;
  NS::Integer code = 0;
  std::string text;

  NS::String* localized_description() const;
};

struct Array : Implements<Array, NS::Array> {
  std::vector<Ref<NS::Object>> objects;

  static NS::Array* empty();
  static NS::Array* with_object(const NS::Object* object);
  static NS::Array* with_objects(const NS::Object* const* objects, NS::UInteger count);
  NS::UInteger count() const { return objects.size(); }
  NS::Object* object(NS::UInteger index) const;
};

// Keys are strings: nothing else is used as one.
struct Dictionary : Implements<Dictionary, NS::Dictionary> {
  std::vector<std::pair<std::string, Ref<NS::Object>>> entries;

  static NS::Dictionary* empty();
  static NS::Dictionary* with_object(const NS::Object* object, const NS::Object* key);
  NS::UInteger count() const { return entries.size(); }
  NS::Object* object(const NS::Object* key) const;
};

struct Url : Implements<Url, NS::URL> {
  std::string path;

  static NS::URL* file_url(const NS::String* path);
  NS::URL* init_file_url(const NS::String* path);
  const char* file_system_representation() const { return path.c_str(); }
};

struct Data : Implements<Data, NS::Data> {
  std::vector<std::byte> bytes;

  void* mutable_bytes() const { return const_cast<std::byte*>(bytes.data()); }
  NS::UInteger length() const { return bytes.size(); }
};

objc_class& constant_string_class();
void adopt_class(objc_class& type, const char* name);  // sets up a class that exists already

std::string text_of(const NS::String* string);         // "" of null
NS::String* string_of(const std::string& text);        // autoreleased
NS::String* string_or_null(const std::string& text);   // null for ""
NS::Array* array_of(const std::vector<const void*>& objects);

// Puts an error where the caller wants one.
void set_error(NS::Error** error, NS::Integer code, const std::string& text);

void register_pool();
void register_foundation();

}  // namespace softmetal
