// A checkpoint that does not fit its config is refused with a message that names the tensor.
#include <boost/ut.hpp>

#include "support/cases.hpp"
#include "support/model.hpp"

namespace lapidary::test::bad_checkpoints_test {
namespace {

using namespace boost::ut;

const suite<"bad checkpoints"> bad_checkpoints = [] {
  for (const Case& entry : cases_about("checkpoint"))
    boost::ut::test("linking " + entry.path.substr(kFixtures.size()) + " gives " + entry.expect) = [entry] {
      const auto error = error_of([&] { Loaded::load(entry.path, {}); });
      expect((error ? std::string(name_of(error->kind)) : "ok") == entry.expect) << (error ? error->message() : "");
      if (error) expect(error->message().find(entry.mentions) != std::string::npos) << error->message();
    };
};

}  // namespace
}  // namespace lapidary::test::bad_checkpoints_test
