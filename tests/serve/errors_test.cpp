#include <boost/ut.hpp>

#include <new>

#include "checkpoint/error.hpp"
#include "serve/api.hpp"

namespace lapidary::test::errors_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;

suite<"errors of the server"> errors = [] {
  const Refusal refusal{.status = 404, .code = "model_not_found", .message = "[model] expected pebble, got gpt", .param = "model"};

  "have the shape of the API that was asked"_test = [&] {
    expect(openai_error(refusal) ==
           R"({"error":{"message":"[model] expected pebble, got gpt","type":"not_found_error","param":"model","code":"model_not_found"}})");
    expect(anthropic_error(refusal, "req_1") ==
           R"({"type":"error","error":{"type":"not_found_error","message":"[model] expected pebble, got gpt"},"request_id":"req_1"})");
  };

  "stay short, whole letters as they are"_test = [] {
    std::string letters;
    for (int i = 0; i < 2000; ++i) letters += "ä";
    const std::string error = openai_error({.message = "x" + letters});
    expect(error.size() < 2000_ul);
    expect(error.find("ä...\"") != std::string::npos);
  };

  "are the request's fault or ours, whatever was thrown"_test = [&] {
    const auto caught_of = [](const auto& thrown) {
      try {
        throw thrown;
      } catch (...) {
        return caught();
      }
    };
    using lapidary::Error, lapidary::ErrorKind;
    expect(caught_of(refusal).status == 404_i && caught_of(refusal).param == "model");
    expect(caught_of(Error{ErrorKind::unsupported, "schema", "not"}).status == 400_i);
    expect(caught_of(Error{ErrorKind::io, "file", "gone"}).status == 500_i && caught_of(Error{ErrorKind::out_of_memory, "", ""}).status == 500_i);
    expect(caught_of(std::bad_alloc()).status == 500_i);
  };
};

}  // namespace
}  // namespace lapidary::test::errors_test
