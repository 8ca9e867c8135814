// Pipelines are compiled once, not at every start.
#include <boost/ut.hpp>

#include "metal/gpu.hpp"
#include "softmetal/softmetal.h"
#include "support/cases.hpp"

namespace lapidary::test::archive_test {
namespace {

using namespace boost::ut;

// Pipelines that were compiled to make one, with an archive at `path`.
unsigned long compiled_with(const std::string& path) {
  constexpr const char* kAdd = "addComputePipelineFunctionsWithDescriptor:error:";
  const unsigned long before = softmetal_message_count(kAdd);
  metal::Gpu gpu(path);
  metal::Dispatch dispatch;
  dispatch.kernel = "keep_draft";
  gpu.prepare(dispatch);
  gpu.keep_pipelines();
  return softmetal_message_count(kAdd) - before;
}

const suite<"archive"> archive = [] {
  "a pipeline is compiled by the first start and found by the second"_test = [] {
    const TemporaryFolder folder;
    const std::string path = folder.path("caches/pipelines");
    expect(compiled_with(path) == 1_ul);
    expect(std::filesystem::exists(path) && !std::filesystem::exists(path + ".partial"));
    expect(compiled_with(path) == 0_ul);
  };

  "a file that is no archive is replaced"_test = [] {
    const TemporaryFolder folder;
    folder.write("pipelines", "something else");
    expect(compiled_with(folder.path("pipelines")) == 1_ul);
    expect(compiled_with(folder.path("pipelines")) == 0_ul);
  };
};

}  // namespace
}  // namespace lapidary::test::archive_test
