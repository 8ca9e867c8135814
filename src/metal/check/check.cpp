#include "metal/check/check.hpp"

#include <cmath>

#include "checkpoint/error.hpp"
#include "metal/check/cases.hpp"

namespace lapidary::metal {
namespace {

using namespace check;

Finding examine(const Case& one, Workbench& bench) {
  try {
    return one.examine(bench);
  } catch (const Error& error) {
    return {INFINITY, 0, error.message()};
  }
}

// The names of the kernels in the text of the library: after `kernel void`, or of the instances of templates.
std::vector<std::string> kernels_of(std::string_view text) {
  std::vector<std::string> names;
  const auto find_all = [&](std::string_view before, std::string_view after) {
    for (std::size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
      const std::size_t begin = at + before.size();
      names.emplace_back(text.substr(begin, text.find_first_of(after, begin) - begin));
    }
  };
  find_all("\nkernel void ", "(");
  find_all("host_name(\"", "\"");
  return names;
}

// A kernel that no case runs would be trusted for nothing.
CheckResult check_all_ran(const Workbench& bench) {
  CheckResult result;
  result.name = "every kernel of the library was run";
  for (const std::string& name : kernels_of(kShaderText)) {
    const bool is_template = std::string_view(kShaderText).find("kernel decltype(" + name + "<") != std::string_view::npos;
    if (!is_template && !bench.kernels().contains(name)) result.problem += (result.problem.empty() ? "not " : ", ") + name;
  }
  return result;
}

}  // namespace

void check_kernels(Gpu& gpu, const std::function<void(const CheckResult&)>& report) {
  Workbench bench(gpu);
  for (const auto& family : {product_cases(), row_cases(), attention_cases(), tower_cases(), choice_cases(), read_cases()})
    for (const Case& one : family) {
      const Finding finding = examine(one, bench);
      report({one.name, finding.error, finding.device_s * 1e6, finding.problem});
      bench.clear();
    }
  report(check_all_ran(bench));
}

}  // namespace lapidary::metal
