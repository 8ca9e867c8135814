// Which arithmetic a model gets when nobody asks for one.
#include "link/numeric.hpp"

#include <boost/ut.hpp>

namespace lapidary::test::numeric_test {
namespace {

using namespace boost::ut;

const suite<"usual numeric mode"> usual_numeric = [] {
  "published models are fast, toys exact"_test = [] {
    int published = 0;
    for (const graph::Graph* graph : graph::compiled_graphs()) {
      const bool is_published = graph->name.starts_with("gemma-4");
      published += is_published;
      expect(link::usual_numeric(*graph) == (is_published ? link::Numeric::fast : link::Numeric::exact)) << graph->name;
    }
    expect(published == 5);
  };
};

}  // namespace
}  // namespace lapidary::test::numeric_test
