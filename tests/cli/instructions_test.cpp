// --cpu as a user meets it, and what inspect and bench tell of the processor.
#include <boost/ut.hpp>

#include "cli/model.hpp"
#include "cpu/backend.hpp"
#include "cpu/processor.hpp"
#include "support/program.hpp"

namespace lapidary::test::instructions_test {
namespace {

using namespace boost::ut;

const std::string kModel = kFixtures + "/models/moe-4bit";

// Processors of a family with three sets of instructions, of which they have the first few. The last two are one for the exact mode.
std::vector<cpu::Instructions> family(int had) {
  const std::pair<const char*, const char*> sets[] = {{"plain", "nothing"}, {"wide", "vectors"}, {"deep", "matrices"}};
  std::vector<cpu::Instructions> all(std::size(sets));
  for (int i = 0; i < static_cast<int>(all.size()); ++i) {
    std::tie(all[i].name, all[i].needs) = sets[i];
    all[i].here = i < had;
    all[i].float_products = i == 0 ? &cpu::kPortableFloatProducts : nullptr;
  }
  return all;
}

const link::Backend kOther{.name = "other"};

std::string complaint(const cli::InstructionsFlag& flag, const link::Backend& backend) {
  const auto error = error_of([&] { flag.check(backend); });
  expect(!error || error->kind == ErrorKind::usage);
  return error ? error->message() : "";
}

std::string member_of(const simdjson::dom::element& object, const char* key) {
  std::string_view text;
  return object["instructions"][key].get(text) ? "" : std::string(text);
}

const suite<"lapidary --cpu"> cpu_flag = [] {
  "is not needed: the last set that the processor has is taken"_test = [] {
    struct Case {
      int had;
      std::string fast, exact;
    };
    const std::string wants_wide = "plain (wide needs vectors, which this processor does not have)";
    for (const auto& [had, fast, exact] : {Case{1, wants_wide, wants_wide},
                                           {2, "wide (deep needs matrices, which this processor does not have)", "wide (the exact mode has no others)"},
                                           {3, "deep (the fastest there are)", "wide (the exact mode has no others)"}}) {
      const auto all = family(had);
      const cli::InstructionsFlag flag{.all = all};
      for (const link::Backend* backend : {&cpu::kBackend, &kOther}) expect(complaint(flag, *backend).empty());
      expect(&flag.taken() == &all[had - 1]);
      expect(flag.taken_by(link::Numeric::fast).text() == fast) << flag.taken_by(link::Numeric::fast).text();
      expect(flag.taken_by(link::Numeric::exact).text() == exact) << flag.taken_by(link::Numeric::exact).text();
    }
  };

  "takes a lesser set, and none that the processor lacks"_test = [] {
    const auto all = family(2);
    for (const cpu::Instructions& asked : all) {
      const cli::InstructionsFlag flag{.all = all, .asked = &asked};
      expect(&flag.taken() == &asked && flag.taken_by(link::Numeric::fast).text() == std::string(asked.name) + " (--cpu)");
      const std::string refusal = "[--cpu] expected instructions this processor has (plain, wide), got deep, which needs matrices";
      expect(complaint(flag, cpu::kBackend) == (asked.here ? "" : refusal)) << complaint(flag, cpu::kBackend);
      expect(complaint(flag, kOther) == "[--cpu] expected --backend cpu, got other");
    }
  };

  "is looked at before the checkpoint"_test = [] {
    cli::ModelFlags flags;
    flags.checkpoint = "nowhere";
    flags.backend_flags.instructions.asked = &cpu::all_instructions().front();
    flags.options.backend = &kOther;
    const auto error = error_of([&] { flags.load(); });
    expect(error && error->where == "--cpu");
  };

  "is taken by every command that runs a model"_test = [] {
    const TemporaryFolder folder;
    folder.write("ids.json", "[[1,2,3]]");
    folder.write("line", "Hi\n");
    for (const std::string& command :
         {"inspect " + kModel, "logits " + kModel + " --ids " + folder.path("ids.json") + " -o " + folder.path("o"),
          "bench " + kModel + " -p 0 -n 0", "bench " + kModel + " --acceptance 0.5 --text-tokens 8",
          std::string("generate Hi --temperature 0 --max-tokens 2"), "chat --temperature 0 --max-tokens 2 <" + folder.path("line")}) {
      const Outcome run = lapidary(command + " --threads 1 --cpu portable");
      expect(run.status == 0_i) << command << run.err;
    }
    expect(lapidary("check-exact --cpu portable --model " + folder.path("missing")).status == 1_i) << "not 2: that flag is known";
  };

  "names the sets of this family of processors, and what one that is not here needs"_test = [] {
    std::string names, here;
    for (const cpu::Instructions& one : cpu::all_instructions()) {
      names += (names.empty() ? "" : ", ") + std::string(one.name);
      if (one.here) here += (here.empty() ? "" : ", ") + std::string(one.name);
    }
    const std::string inspect = "inspect " + kModel + " --numeric fast --json --cpu ";
    const Outcome unknown = lapidary(inspect + "abacus");
    expect(unknown.status == 2_i && unknown.err == "[--cpu] expected one of " + names + ", got 'abacus'\n") << unknown.err;
    for (const cpu::Instructions& one : cpu::all_instructions()) {
      const Outcome run = lapidary(inspect + std::string(one.name));
      if (!one.here) {
        expect(run.status == 2_i && run.err == "[--cpu] expected instructions this processor has (" + here + "), got " +
                                                   std::string(one.name) + ", which needs " + std::string(one.needs) + "\n")
            << run.err;
        continue;
      }
      simdjson::dom::parser parser;
      simdjson::dom::element root;
      expect(fatal(run.status == 0 && !parser.parse(run.out).get(root))) << run.err;
      expect(member_of(root, "name") == one.name && member_of(root, "because") == "--cpu") << run.out;
    }
  };

  "is told by inspect and bench, with the name of the processor"_test = [] {
    const cli::InstructionsFlag::Taken taken = cli::InstructionsFlag{}.taken_by(link::Numeric::fast);
    const Outcome inspect = lapidary("inspect " + kModel + " --numeric fast");
    expect(inspect.out.find("\n  numeric        fast\n  instructions   " + taken.text() + "\n") != std::string::npos) << inspect.out;
    const Outcome exact = lapidary("inspect " + kModel + " --numeric exact");
    const std::string exactly = cli::InstructionsFlag{}.taken_by(link::Numeric::exact).text();
    expect(exact.out.find("\n  instructions   " + exactly + "\n") != std::string::npos) << exact.out;

    for (const char* flags : {" -p 0 -n 0", " --acceptance 0.5 --text-tokens 8"}) {
      const std::string bench = "bench " + kModel + " --numeric fast" + flags;
      const Outcome text = lapidary(bench);
      expect(text.out.starts_with(cpu::processor_name() + ", instructions " + taken.text() + "\n")) << text.out;
      const Outcome json = lapidary(bench + " --json");
      simdjson::dom::parser parser;
      simdjson::dom::element line;
      expect(fatal(!parser.parse(json.out).get(line))) << json.out;
      expect(std::string_view(line["processor"]) == cpu::processor_name()) << json.out;
      expect(member_of(line, "name") == taken.name && member_of(line, "because") == taken.because) << json.out;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::instructions_test
