// embed and ple_inputs for every storage of their tables.
#include <boost/ut.hpp>

#include "cpu/lookups.hpp"

namespace lapidary::test::embed_test {
namespace {

using namespace boost::ut;
using boost::ut::test;  // the function, not our namespace

suite<"embed"> embed_suite = [] {
  for (const Storage& storage : all_storages()) {
    test("embed from " + label(storage) +
         " is near its definition, and embed and embed_pair the same among any other rows") = [&storage] {
      Random random(1);
      for (const int hidden : {1536, 2560, 3840, 2816, 5376, 192, 64})
        if (fits(storage, hidden)) expect_embed(random, kLookups, storage, 70, hidden);
      for (const int hidden : {1536, 192})
        if (fits(storage, hidden)) expect_embeds_alone(random, kLookups, storage, hidden, all_company(70));
    };

    test("ple_inputs from " + label(storage) + " is near its definition and the same among any other rows") = [&storage] {
      Random random(3);
      for (const auto& [layers, width] : {std::pair{35, 256}, std::pair{42, 256}, std::pair{4, 32}})
        if (fits(storage, layers * width)) expect_ple_inputs(random, kLookups, storage, layers, width, all_company(9));
    };
  }

  test_embed_codes(kLookups);
};

}  // namespace
}  // namespace lapidary::test::embed_test
