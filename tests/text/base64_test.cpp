// Bytes as letters and back, and addresses that hold them.
#include <boost/ut.hpp>

#include "text/base64.hpp"

namespace lapidary::test::base64_test {
namespace {

using namespace boost::ut;
using text::from_base64, text::to_base64, text::read_data_url;

const suite<"base 64"> base64 = [] {
  "the examples of RFC 4648 are written and read"_test = [] {
    for (const auto& [bytes, letters] : {std::pair{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
                                         {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}}) {
      expect(to_base64(bytes) == letters) << bytes;
      expect(from_base64(letters) == bytes) << letters;
    }
  };

  "every byte comes back at every place of a group"_test = [] {
    for (int byte = 0; byte < 256; ++byte)
      for (std::size_t length = 1; length < 5; ++length) {
        const std::string bytes(length, static_cast<char>(byte));
        expect(from_base64(to_base64(bytes)) == bytes) << byte << length;
      }
  };

  "what no encoder writes is refused"_test = [] {
    for (const char* letters : {"Zg", "Zg=", "Z", "Z===", "====", "Zm9v=", "Zm 9", "Zm9v\n", "Zm9-", "Zm9_", "Zh==", "Zm9=", "=Zm9", "Zg==Zg=="})
      expect(!from_base64(letters)) << letters;
  };

  "addresses of data are read, and no others"_test = [] {
    expect(read_data_url("data:image/png;base64,Zm9v") == "foo");
    expect(read_data_url("data:;base64,") == "");
    expect(read_data_url("data:text/plain;charset=utf-8;base64,Zm9v") == "foo");
    for (const char* url : {"", "data:", "data:image/png,Zm9v", "data:image/png;base64", "data:image/png;base64,Zm9", "http://host/a;base64,Zm9v",
                            "file:///etc/passwd", "DATA:image/png;base64,Zm9v"})
      expect(!read_data_url(url)) << url;
  };
};

}  // namespace
}  // namespace lapidary::test::base64_test
