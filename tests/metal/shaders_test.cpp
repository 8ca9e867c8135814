// The shader text itself: does it keep Metal's rules, does CUDA take it, and do all kernels stay clear of races and foreign memory?
#include <boost/ut.hpp>

#include "metal/gpu.hpp"
#include "support/program.hpp"

namespace lapidary::test::shaders_test {
namespace {

using namespace boost::ut;

const suite<"shaders"> shaders = [] {
  const TemporaryFolder folder;
  folder.write("all.metal", metal::kShaderText);
  const std::string text = folder.path("all.metal"), tools = "sh " + kRoot + "/tests/softmetal/";

  "the lint takes the shaders"_test = [&] {
    const Outcome outcome = shell(tools + "lint " + text);
    expect(outcome.status == 0_i) << outcome.out << outcome.err;
  };

  "no kernel has a race or leaves its memory"_test = [&] {
    const Outcome outcome =
        shell("SOFTMETAL_CHECK=1 " + std::string(LAPIDARY_PROGRAM) + "-metal metal-check --kernels --out " + folder.path("receipt.json"));
    expect(outcome.status == 0_i) << outcome.out << outcome.err;
    expect(outcome.out.find("\nok ") != std::string::npos);
  };

  "the shaders compile for CUDA, where there is nvcc"_test = [&] {
    const Outcome outcome = shell(tools + "compile-cuda " + text + " " + folder.path("all.ptx"));
    expect(outcome.status == 0_i) << outcome.out << outcome.err;
  };
};

}  // namespace
}  // namespace lapidary::test::shaders_test
