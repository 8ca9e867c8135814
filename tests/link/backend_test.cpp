// The table of backends, and what linking asks of a row.
#include "link/backend.hpp"

#include <boost/ut.hpp>

#include <set>

#include "support/cases.hpp"
#include "support/model.hpp"

namespace lapidary::test::backend_test {
namespace {

using namespace boost::ut;

const std::string kPebble = kRoot + "/models/pebble";

const link::Backend kMadeUp{.name = "made up",
                            .repacked_bytes = [](const link::Program&) { return std::size_t{1000}; },
                            .room_bytes = [](const link::Program&) { return std::size_t{200}; },
                            .variant_of = [](const link::Program& program, const graph::Step& step) {
                              return link::variant_name(program, step, "by_hand");
                            }};

const suite<"backends"> backends = [] {
  "have names of their own, and all that linking and running asks for"_test = [] {
    std::set<std::string_view> names;
    for (const link::Backend* backend : link::backends()) {
      expect(names.insert(backend->name).second) << backend->name;
      expect(backend->repacked_bytes && backend->room_bytes && backend->variant_of && backend->make) << backend->name;
    }
    expect(names.contains("cpu"));
  };

  "a program is for the first one unless another is asked for"_test = [] {
    expect(Loaded::load(kPebble, {}).backend == link::backends().front());
    expect(Loaded::load(kPebble, {.backend = &kMadeUp}).backend == &kMadeUp);
  };

  "say what is copied, what they work in and how a step computes"_test = [] {
    const link::Program program = Loaded::load(kPebble, {.backend = &kMadeUp});
    const link::MemoryPlan& plan = program.plan;
    expect(plan.repacked_bytes == 1000u && plan.room_bytes == 200u);
    expect(plan.anonymous_bytes() == plan.kv_bytes + plan.arena_bytes + plan.tower_bytes + plan.constants_bytes + 1200);
    const link::Options limited{.backend = &kMadeUp, .memory_limit_bytes = plan.anonymous_bytes() - 1};
    expect(outcome_of([&] { Loaded::load(kPebble, limited); }) == "out_of_memory");
    expect(link::variant_of(program, program.graph->segment(graph::SegmentId::head).steps.front()).starts_with("rms_norm_by_hand"));
  };

  "instructions that the processor does not have are refused"_test = [] {
    const auto error = error_of([&] { Loaded::load(kPebble, {.backend_options = {.instructions = "abacus"}}); });
    expect(error && error->message() == "[instructions] expected a set that this processor has, got abacus");
  };
};

}  // namespace
}  // namespace lapidary::test::backend_test
