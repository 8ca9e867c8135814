#include <boost/ut.hpp>
#include <set>

#include "serve/http_head.hpp"

namespace lapidary::test::http_head_test {
namespace {

using namespace boost::ut;
using namespace lapidary::serve;

suite<"heads of HTTP"> heads = [] {
  "dates are those of Greenwich, in English"_test = [] {
    expect(http_date(784'111'777) == "Sun, 06 Nov 1994 08:49:37 GMT");
    expect(http_date(1'709'164'800) == "Thu, 29 Feb 2024 00:00:00 GMT");
  };

  "ids differ"_test = [] {
    std::set<std::string> ids;
    for (int i = 0; i < 1000; ++i) ids.insert(random_id());
    expect(ids.size() == 1000_ul && ids.begin()->size() == 32_ul);
  };

  "HTTP/1.0 knows no expectations"_test = [] {
    Head head{.method = "POST", .fields = {{"host", "a"}, {"content-length", "1"}, {"expect", "100-continue"}}};
    expect(expects_continue(head));
    head.http_1_0 = true;
    expect(!expects_continue(head));
    head.fields.back().second = "something";
    expect(!body_fault(head, {}));
  };
};

}  // namespace
}  // namespace lapidary::test::http_head_test
