// Stop strings in text that arrives in pieces.
#include <boost/ut.hpp>

#include "text/stop_matcher.hpp"

namespace lapidary::test::stop_matcher_test {
namespace {

using namespace boost::ut;
using text::StopMatcher;

const suite<"stop matcher"> stop_matcher = [] {
  "the string that comes first ends the text and is named"_test = [] {
    StopMatcher matcher({"END", "--", "!"});
    expect(matcher.push("some te") == "some te" && matcher.push("xt E") == "xt " && matcher.push("N-") == "EN" && !matcher.matched());
    expect(matcher.match().empty());
    expect(matcher.push("x END! --") == "-x " && matcher.matched() && matcher.match() == "END");
    expect(matcher.push("more").empty() && matcher.finish().empty() && matcher.match() == "END");
  };

  "without a match what was held back comes at the end"_test = [] {
    StopMatcher matcher({"END"});
    expect(matcher.push("the EN") == "the " && matcher.finish() == "EN" && !matcher.matched() && matcher.match().empty());
  };
};

}  // namespace
}  // namespace lapidary::test::stop_matcher_test
