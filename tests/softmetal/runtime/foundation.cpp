#include "runtime/foundation.hpp"

// The compiler lays out MTLSTR("...") and names its class so. It must be there before the statics of any other file.
extern "C" {
extern objc_class __CFConstantStringClassReference;
objc_class __CFConstantStringClassReference __attribute__((init_priority(101)));
}

namespace softmetal {
namespace {

struct ConstantString {
  objc_class* isa;
  int flags;
  const char* text;
  long bytes;
};

NS::String* new_string(std::string text) {
  auto* string = new String;
  string->text = std::move(text);
  return autoreleased(string);
}

template <class Method>
void add_constant_method(const char* selector, Method method) {
  add_method(constant_string_class(), selector, reinterpret_cast<IMP>(+method));
}

void register_constant_strings() {
  adopt_class(constant_string_class(), "NSConstantString");
  add_constant_method("UTF8String", [](ConstantString* self, SEL) { return self->text; });
  add_constant_method("cStringUsingEncoding:", [](ConstantString* self, SEL, NS::StringEncoding) { return self->text; });
  add_constant_method("length", [](ConstantString* self, SEL) { return static_cast<NS::UInteger>(self->bytes); });
  add_constant_method("isEqualToString:", [](ConstantString* self, SEL, const NS::String* other) {
    return text_of(other) == std::string(self->text, static_cast<std::size_t>(self->bytes));
  });
  add_constant_method("stringByAppendingString:", [](ConstantString* self, SEL, const NS::String* other) {
    return new_string(self->text + text_of(other));
  });
  add_constant_method("autorelease", [](ConstantString* self, SEL) { return self; });
}

}  // namespace

objc_class& constant_string_class() { return __CFConstantStringClassReference; }

std::string text_of(const NS::String* string) {
  if (!string) return "";
  const auto* object = reinterpret_cast<const Object*>(string);
  if (object->isa != &constant_string_class()) return as<String>(string)->text;
  const auto* constant = reinterpret_cast<const ConstantString*>(string);
  return {constant->text, static_cast<std::size_t>(constant->bytes)};
}

NS::String* string_of(const std::string& text) { return new_string(text); }
NS::String* string_or_null(const std::string& text) { return text.empty() ? nullptr : new_string(text); }

NS::String* String::empty() { return new_string(""); }
NS::String* String::with_c_string(const char* text, NS::StringEncoding) { return new_string(text); }
NS::String* String::with_string(const NS::String* other) { return new_string(text_of(other)); }
NS::String* String::init_with_c_string(const char* from, NS::StringEncoding) {
  text = from;
  return api(this);
}
bool String::is_equal(const NS::String* other) const { return text == text_of(other); }
NS::String* String::appending(const NS::String* other) const { return new_string(text + text_of(other)); }

NS::String* Error::localized_description() const { return new_string(text); }

void set_error(NS::Error** error, NS::Integer code, const std::string& text) {
  if (!error) return;
  auto* made = new Error;
  made->code = code;
  made->text = text;
  made->domain = string_of("MTLSoftwareDevice");
  *error = autoreleased(made);
}

NS::Array* array_of(const std::vector<const void*>& objects) {
  auto* array = new Array;
  for (const void* object : objects) array->objects.emplace_back(static_cast<const NS::Object*>(object));
  return autoreleased(array);
}

NS::Array* Array::empty() { return array_of({}); }
NS::Array* Array::with_object(const NS::Object* object) { return array_of({object}); }
NS::Array* Array::with_objects(const NS::Object* const* objects, NS::UInteger count) {
  return array_of(std::vector<const void*>(objects, objects + count));
}
NS::Object* Array::object(NS::UInteger index) const {
  if (index >= objects.size())
    fail("-[NSArray objectAtIndex:]: " + std::to_string(index) + " of " + std::to_string(objects.size()));
  return objects[index].get();
}

NS::Dictionary* Dictionary::empty() { return autoreleased(new Dictionary); }
NS::Dictionary* Dictionary::with_object(const NS::Object* object, const NS::Object* key) {
  auto* dictionary = new Dictionary;
  dictionary->entries.emplace_back(text_of(static_cast<const NS::String*>(static_cast<const void*>(key))), object);
  return autoreleased(dictionary);
}
NS::Object* Dictionary::object(const NS::Object* key) const {
  const std::string name = text_of(static_cast<const NS::String*>(static_cast<const void*>(key)));
  for (const auto& [entry, object] : entries)
    if (entry == name) return object.get();
  return nullptr;
}

NS::URL* Url::file_url(const NS::String* path) {
  auto* url = new Url;
  url->path = text_of(path);
  return autoreleased(url);
}
NS::URL* Url::init_file_url(const NS::String* from) {
  path = text_of(from);
  return api(this);
}

void register_foundation() {
  register_constant_strings();
  ClassOf<String>("NSString")
      .allocatable()
      .class_method<&String::empty>(&NS::String::string, "string")
      .class_method<&String::with_c_string>(&NS::String::string, "stringWithCString:encoding:")
      .class_method<&String::with_string>(&NS::String::string, "stringWithString:")
      .method<&String::init_with_c_string>(&NS::String::init, "initWithCString:encoding:")
      .method<&String::length>(&NS::String::length, "length")
      .method<&String::utf8>(&NS::String::utf8String, "UTF8String")
      .method<&String::c_string>(&NS::String::cString, "cStringUsingEncoding:")
      .method<&String::is_equal>(&NS::String::isEqualToString, "isEqualToString:")
      .method<&String::appending>(&NS::String::stringByAppendingString, "stringByAppendingString:");
  ClassOf<Error>("NSError")
      .method<&Error::localized_description>(&NS::Error::localizedDescription, "localizedDescription")
      .getter<&Error::domain>(&NS::Error::domain, "domain")
      .getter<&Error::code>(&NS::Error::code, "code");
  ClassOf<Array>("NSArray")
      .allocatable()
      .class_method<&Array::empty>(&NS::Array::array, "array")
      .class_method<&Array::with_object>(&NS::Array::array, "arrayWithObject:")
      .class_method<&Array::with_objects>(&NS::Array::array, "arrayWithObjects:count:")
      .method<&Array::count>(&NS::Array::count, "count")
      .method<&Array::object>(&NS::Array::object<NS::Object>, "objectAtIndex:");
  ClassOf<Dictionary>("NSDictionary")
      .allocatable()
      .class_method<&Dictionary::empty>(&NS::Dictionary::dictionary, "dictionary")
      .class_method<&Dictionary::with_object>(&NS::Dictionary::dictionary, "dictionaryWithObject:forKey:")
      .method<&Dictionary::count>(&NS::Dictionary::count, "count")
      .method<&Dictionary::object>(&NS::Dictionary::object<NS::Object>, "objectForKey:");
  ClassOf<Url>("NSURL")
      .allocatable()
      .class_method<&Url::file_url>(&NS::URL::fileURLWithPath, "fileURLWithPath:")
      .method<&Url::init_file_url>(&NS::URL::initFileURLWithPath, "initFileURLWithPath:")
      .method<&Url::file_system_representation>(&NS::URL::fileSystemRepresentation, "fileSystemRepresentation");
  ClassOf<Data>("NSData")
      .method<&Data::mutable_bytes>(&NS::Data::mutableBytes, "mutableBytes")
      .method<&Data::mutable_bytes>(&NS::Data::mutableBytes,
                                    "bytes")  // what data that may not be written to has; not in metal-cpp
      .method<&Data::length>(&NS::Data::length, "length");
}

}  // namespace softmetal
