#include "cpu/processor.hpp"

#include <boost/ut.hpp>

namespace lapidary::test::processor_test {
namespace {

using namespace boost::ut;

std::string arm_core(const std::string& implementer, const std::string& part) {
  return "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: " + implementer +
         "\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: " + part + "\nCPU revision\t: 1\n\n";
}

const suite<"processor"> processor = [] {
  "is named as it names itself"_test = [] {
    expect(cpu::processor_name_in("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\n"
                                  "model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz\nstepping\t: 8\n") ==
           "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz");
  };

  "is named by the numbers of its cores on Arm"_test = [] {
    const std::string n1 = arm_core("0x41", "0xd0c"), small = arm_core("0x41", "0xd05"), large = arm_core("0x41", "0xd0b");
    expect(cpu::processor_name_in(n1 + n1) == "Neoverse-N1");
    expect(cpu::processor_name_in(small + small + large) == "Cortex-A55 and Cortex-A76");
    expect(cpu::processor_name_in(arm_core("0xc0", "0xac3")) == "Ampere-1");
    expect(cpu::processor_name_in(arm_core("0x61", "0xd0c")) == "implementer 0x61 part 0xd0c");
  };

  "has some name whatever the system tells"_test = [] {
    for (const char* text : {"", "\n", ":", "\n:\nCPU part", "model name"})
      expect(cpu::processor_name_in(text) == "unknown processor") << text;
    expect(!cpu::processor_name().empty());
  };
};

}  // namespace
}  // namespace lapidary::test::processor_test
