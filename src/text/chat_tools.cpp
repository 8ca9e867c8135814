#include "text/chat_tools.hpp"

#include <algorithm>
#include <array>

#include "text/chat_fields.hpp"

namespace lapidary::text {

namespace {

class DeclarationWriter {
 public:
  DeclarationWriter(PromptWriter& out, const std::string& path, Revision revision)
      : out_(out), path_(path), revision_(revision) {}

  void declaration(const Value& function) {
    out_.markup("declaration:");
    out_.quote(string_field(function, "name", path_));
    const Value* description = function.find("description");
    named_string("{description:", description ? printed(*description) : "");
    if (const Value* parameters = truthy_field(function, "parameters")) this->parameters(*parameters);
    if (const Value* response = function.find("response")) this->response(*response);
    out_.markup("}");
  }

 private:
  // The closing brace belongs to the type: without one it is missing, in every revision.
  void parameters(const Value& schema) {
    if (!schema.object()) reject(path_ + ".parameters", "an object", &schema);
    out_.markup(",parameters:{");
    if (const Value* fields = truthy_field(schema, "properties")) {
      if (!fields->object()) reject(path_ + ".parameters.properties", "an object", fields);
      out_.markup("properties:{");
      properties(*fields->object(), drops_schema_words());
      out_.markup("},");
    }
    if (const Value* names = truthy_field(schema, "required")) {
      required(*names);
      out_.markup(",");
    }
    if (const Value* type = truthy_field(schema, "type")) {
      named_string("type:", upper_case(printed(*type)));
      out_.markup("}");
    }
  }

  void response(const Value& schema) {
    out_.markup(",response:{");
    if (const Value* description = truthy_field(schema, "description")) {
      named_string("description:", printed(*description));
      out_.markup(",");
    }
    if (type_of(schema) == "OBJECT") {
      named_string("type:", "OBJECT");
      out_.markup("}");
    }
  }

  void properties(const Value::Object& fields, bool drop_schema_words) {
    const char* before = "";
    for (const auto* field : in_dictionary_order(fields)) {
      if (drop_schema_words && is_schema_word(field->first)) continue;
      out_.markup(before);
      property(field->first, field->second);
      before = ",";
    }
  }

  void property(const std::string& name, const Value& schema) {
    const std::string type = type_of(schema);
    const char* before = "";
    const auto next = [&] {
      out_.markup(before);
      before = ",";
    };
    out_.quote(name);
    out_.markup(":{");
    if (const Value* description = truthy_field(schema, "description")) {
      next();
      named_string("description:", printed(*description));
    }
    if (const Value* choices = type == "STRING" ? truthy_field(schema, "enum") : nullptr) {
      next();
      out_.markup("enum:");
      write_value(out_, *choices, Keys::quoted, revision_);
    }
    if (const Value* items = type == "ARRAY" ? truthy_field(schema, "items") : nullptr; items && items->object()) {
      next();
      out_.markup("items:{");
      item_fields(*items->object());
      out_.markup("}");
    }
    if (truthy_field(schema, "nullable")) {
      next();
      out_.markup("nullable:true");
    }
    if (type == "OBJECT") {
      next();
      out_.markup("properties:{");
      const Value* fields = schema.find("properties");
      if (fields && fields->object()) {
        properties(*fields->object(), drops_schema_words());
      } else {
        properties(*schema.object(), true);  // its other keys stand in for properties
      }
      out_.markup("}");
      if (const Value* names = truthy_field(schema, "required")) {
        next();
        required(*names);
      }
    }
    next();
    named_string("type:", type);
    out_.markup("}");
  }

  void item_fields(const Value::Object& items) {
    const char* before = "";
    for (const auto* field : in_dictionary_order(items)) {
      const auto& [key, value] = *field;
      if (value.is_null()) continue;
      out_.markup(before);
      before = ",";
      if (key == "properties") {
        out_.markup("properties:{");
        if (value.object()) properties(*value.object(), drops_schema_words());
        out_.markup("}");
      } else if (key == "required") {
        required(value);
      } else if (key == "type") {
        out_.markup("type:");
        write_value(out_, upper_types(value), Keys::quoted, revision_);
      } else {
        out_.quote(key);
        out_.markup(":");
        write_value(out_, value, Keys::quoted, revision_);
      }
    }
  }

  Value upper_types(const Value& type) const {
    if (const std::string* name = type.string()) return Value(upper_case(*name));
    Value::Array names;
    for (const Value& name : as_array(type, path_ + ": type of items")) names.push_back(upper_case(printed(name)));
    return Value(std::move(names));
  }

  void required(const Value& names) {
    const char* before = "";
    out_.markup("required:[");
    for (const Value& name : as_array(names, path_ + ": required")) {
      out_.markup(before);
      write_string(out_, printed(name));
      before = ",";
    }
    out_.markup("]");
  }

  void named_string(std::string_view label, std::string_view text) {
    out_.markup(label);
    write_string(out_, text);
  }

  static std::string type_of(const Value& schema) {
    const Value* type = schema.find("type");
    return type ? upper_case(printed(*type)) : "";
  }

  static bool is_schema_word(std::string_view key) {
    constexpr std::array<std::string_view, 5> kWords = {"description", "type", "properties", "required", "nullable"};
    return std::find(kWords.begin(), kWords.end(), key) != kWords.end();
  }

  // The first revision loses parameters that are called like a word of the schema.
  bool drops_schema_words() const { return revision_ == Revision::april; }

  PromptWriter& out_;
  const std::string& path_;
  Revision revision_;
};

}  // namespace

void write_declaration(PromptWriter& out, const Value& tool, const std::string& path, Revision revision) {
  const Value& function = object_field(tool, "function", path);
  const std::string function_path = path + ".function";
  DeclarationWriter(out, function_path, revision).declaration(function);
}

}  // namespace lapidary::text
