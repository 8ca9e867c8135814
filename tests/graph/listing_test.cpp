// The listing of every stock graph is pinned: a change in lowering, fusion or placement shows up in review. To accept one,
// copy build/release/graphs/SYMBOL.txt over golden/SYMBOL.txt.
#include <boost/ut.hpp>

#include <fstream>
#include <sstream>

#include "graph/listing.hpp"

namespace lapidary::test::listing_test {
namespace {

using namespace boost::ut;

const suite<"graph listings"> listings = [] {
  for (const std::string name : {"gemma-4-e2b", "gemma-4-e4b", "gemma-4-12b", "gemma-4-26b-a4b", "gemma-4-31b", "pebble"})
    boost::ut::test("the listing of " + name + " is as pinned") = [name] {
      const graph::Graph* found = nullptr;
      for (const graph::Graph* graph : graph::compiled_graphs())
        if (graph->name == name) found = graph;
      expect(fatal(found != nullptr));
      std::ostringstream now;
      graph::write_listing(now, *found);

      std::string symbol = name;
      for (char& c : symbol) if (c == '-') c = '_';
      std::ifstream file(std::string(LAPIDARY_ROOT) + "/tests/graph/golden/" + symbol + ".txt");
      std::ostringstream pinned;
      pinned << file.rdbuf();
      expect(now.str() == pinned.str()) << "compare build/release/graphs/" + symbol + ".txt with the pinned file\n";
    };
};

}  // namespace
}  // namespace lapidary::test::listing_test
