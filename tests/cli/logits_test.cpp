// lapidary logits with images and sounds from files, against the reference. Of the program with the backend that this one is about.
#include <boost/ut.hpp>

#include <cmath>

#include "link/backend.hpp"
#include "support/program.hpp"
#include "support/soft_prompts.hpp"
#include "text/value.hpp"

namespace lapidary::test::logits_test {
namespace {

using namespace boost::ut;
using text::Value;

// As fixtures/README.md recommends; the tower's rows are the larger, the larger their numbers.
constexpr float kLogitsTolerance = 0.002f, kSoftTolerance = 0.0005f;

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

bool is_cpu() { return link::backends().front()->name == "cpu"; }

Outcome logits_of(const std::string& arguments) { return is_cpu() ? lapidary("logits " + arguments) : shell(std::string(LAPIDARY_PROGRAM) + "-metal logits " + arguments); }

const suite<"lapidary logits"> logits = [] {
  for (const char* kind : {"dense", "ple", "unified"})
    boost::ut::test(std::string(kind) + " from the files of images and sounds: soft tokens, logits and greedy ids of the reference") = [=] {
      SoftFixture fixture(kind);
      // Others take longer: one prompt with all that the model perceives.
      if (!is_cpu()) std::erase_if(fixture.prompts, [&](const auto& one) { return one.first != (kind == std::string("dense") ? "image" : "image-audio"); });
      expect(fatal(!fixture.prompts.empty()));
      const TemporaryFolder folder;
      Value::Array prompts;
      for (const auto& [name, prompt] : fixture.prompts) prompts.push_back(entry_of(prompt));
      folder.write("ids.json", text::to_json(prompts));
      const Outcome run = logits_of(kFixtures + "/models/" + kind + "-bf16 --soft --greedy 12 --numeric exact --ids " +
                                   folder.path("ids.json") + " -o " + folder.path("out"));
      expect(fatal(run.status == 0)) << run.err;
      const Expected ours(folder.path("out"));
      int number = 0;
      for (const auto& [name, prompt] : fixture.prompts) {
        const std::string ours_of = "prompt" + std::to_string(number++) + ".";
        const float difference = largest_difference(ours.floats(ours_of + "logits"), fixture.expected.floats(name + ".logits"));
        expect(difference <= kLogitsTolerance) << name << difference;
        expect(ours.ids(ours_of + "greedy") == fixture.expected.ids(name + ".greedy")) << name;
        int counts[2] = {};
        for (const decode::SoftBlock& block : prompt.blocks)
          for (const char* what : {".tower", ".soft"}) {
            const std::string medium = (block.is_image ? "image" : "audio") + std::to_string(counts[block.is_image]), golden = block.content + what;
            if (std::string_view(what) == ".soft") ++counts[block.is_image];
            const Tensor* made = ours.find(ours_of + medium + what);
            const Tensor* expected = fixture.expected.find(golden);
            expect(fatal((made != nullptr) == (expected != nullptr))) << golden;
            if (!made) continue;
            expect(made->shape == expected->shape) << golden;
            expect(largest_difference(ours.floats(ours_of + medium + what), fixture.expected.floats(golden)) <= kSoftTolerance) << golden;
          }
      }
    };

  if (!is_cpu()) return;  // what is refused never runs
  "prompts whose files and places do not belong together are refused"_test = [] {
    const SoftFixture fixture("dense");
    const SoftPrompt& prompt = fixture.prompts.at("image");
    const std::string file = "\"" + kFixtures + "/images/rgb-48x64.png\"", ids = text::to_json(list_of(prompt.ids));
    const TemporaryFolder folder;
    for (const auto& [entry, mentions] : std::vector<std::pair<std::string, std::string>>{
             {R"({"ids":)" + ids + "}", ""},
             {R"({"ids":)" + ids + R"(,"images":[]})", ""},  // placeholders are tokens like any others then
             {R"({"ids":)" + ids + R"(,"images":[)" + file + "," + file + R"(],"image_tokens":70})", "image files, expected places of soft tokens for each"},
             {R"({"ids":)" + ids + R"(,"images":[)" + file + R"(],"image_tokens":140})", "[media] number 0, expected a place for each of its 1"},
             {R"({"ids":)" + ids + R"(,"audio":[)" + file + R"(],"image_tokens":70})", "image files, expected another one"},
             {R"({"ids":)" + ids + R"(,"images":[)" + file + R"(],"image_tokens":71})", "expected 70, 140, 280, 560 or 1120, got 71"},
             {R"({"ids":)" + ids + R"(,"images":["missing.png"],"image_tokens":70})", "[missing.png] cannot be read"},
             {R"({"images":[]})", "prompt, expected ids"},
             {R"({"ids":[1],"image":[]})", "got image: []"},
             {R"({"ids":[1],"images":[7]})", "images, expected a list of files, got [7]"}}) {
      folder.write("ids.json", "[" + entry + "]");
      const Outcome run = lapidary("logits " + kFixtures + "/models/dense-bf16 --ids " + folder.path("ids.json") + " -o " + folder.path("out"));
      expect((run.status == 0) == mentions.empty()) << entry << run.err;
      expect(run.err.find(mentions) != std::string::npos) << run.err;
    }
  };
};

}  // namespace
}  // namespace lapidary::test::logits_test
