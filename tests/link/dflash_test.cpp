// The weights of a DFlash drafter: how they are bound, and what is refused.
#include <boost/ut.hpp>

#include <functional>

#include "codegen/stages.hpp"
#include "support/cases.hpp"
#include "support/model.hpp"
#include "support/unpack.hpp"

namespace lapidary::test::dflash_test {
namespace {

using namespace boost::ut;

// A target with a drafter and the graph that is made for them.
void link_pair(const std::string& target, const std::string& dflash) {
  const codegen::Built built(codegen::read_model(target, {dflash}));
  link::link(Checkpoint::open(target), std::nullopt, built.graph(), {}, Checkpoint::open(dflash));
}

const std::string kTarget = kFixtures + "/models/ple-bf16";
const std::string kDrafter = kFixtures + "/dflash/ple-bf16";

// What linking says of a copy of the drafter with other tensors.
std::optional<Error> error_with(const std::function<void(std::vector<NamedTensor>&)>& change) {
  const TemporaryFolder folder;
  const Checkpoint source = Checkpoint::open(kDrafter);
  std::vector<NamedTensor> tensors = source.tensors();
  change(tensors);
  write_safetensors(folder.path("model.safetensors"), tensors);
  folder.write("config.json", read_text_file(kDrafter + "/config.json"));
  return error_of([&] { Loaded::load(kTarget, {}, "", folder.path()); });
}

void expect_mentions(const std::optional<Error>& error, ErrorKind kind, const std::vector<std::string>& words) {
  expect(fatal(error.has_value())) << "nothing was refused: " << words.front();
  expect(error->kind == kind) << error->message();
  for (const std::string& word : words) expect(error->message().find(word) != std::string::npos) << error->message();
}

const suite<"binding a DFlash drafter"> dflash_suite = [] {
  "every checkpoint case of the manifest, with its target"_test = [] {
    const TemporaryFolder folder;
    unpack(kFixtures + "/bad/dflash/checkpoints.tar.xz", folder.path());
    const auto cases = cases_about("dflash-checkpoint", "dflash/manifest.json");
    expect(eq(cases.size(), 17_ul));
    for (const Case& bad : cases) {
      const std::string dflash = folder.path("checkpoints" + bad.path.substr(bad.path.rfind('/')));
      expect(fatal(std::filesystem::exists(dflash + "/model.safetensors"))) << dflash;
      const auto error = error_of([&] { link_pair(kFixtures + "/bad/checkpoints/ok-base", dflash); });
      expect(is_expected(bad, error)) << bad.path << "expected" << bad.expect << (error ? error->message() : "");
    }
  };

  "all tensors of the fixtures are bound, and nothing else"_test = [] {
    for (const char* name : {"dense-bf16", "moe-4bit", "moe-bf16", "ple-bf16", "unified-bf16"}) {
      const std::string folder = kFixtures + "/dflash/" + name;
      const link::Program program = Loaded::load(kFixtures + "/models/" + name, {}, "", folder);
      std::size_t bound = 0, tensors = 0;
      for (std::size_t i = 0; i < program.graph->weights.size(); ++i)
        if (program.graph->weights[i].owner == graph::Owner::dflash) {
          expect(program.matrices[i].values || program.vectors[i]) << program.graph->weights[i].name;
          ++bound;
        }
      const Checkpoint checkpoint = Checkpoint::open(folder);
      for (const NamedTensor& tensor : checkpoint.tensors()) tensors += !tensor.name.ends_with(".scales") && !tensor.name.ends_with(".biases");
      expect(eq(bound, tensors)) << name;
    }
  };

  "every tensor is missed by its name"_test = [] {
    const Checkpoint source = Checkpoint::open(kDrafter);
    expect(fatal(source.tensors().size() == 25u));
    for (const NamedTensor& missing : source.tensors())
      expect_mentions(error_with([&](std::vector<NamedTensor>& tensors) {
                        std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == missing.name; });
                      }),
                      ErrorKind::missing_tensor, {missing.name.substr(std::string("model.").size())});
  };

  "every tensor has one shape"_test = [] {
    const Checkpoint source = Checkpoint::open(kDrafter);
    for (std::size_t i = 0; i < source.tensors().size(); ++i)
      expect_mentions(error_with([&](std::vector<NamedTensor>& tensors) {
                        Tensor& tensor = tensors[i].tensor;
                        tensor.bytes = tensor.bytes.first(tensor.bytes.size() / 2);
                        tensor.shape[0] /= 2;
                      }),
                      ErrorKind::shape_mismatch, {source.tensors()[i].name, "expected [" + std::to_string(source.tensors()[i].tensor.shape[0])});
  };

  "the prefix of a name is a matter of that name"_test = [] {
    expect(!error_with([](std::vector<NamedTensor>& tensors) {
      for (NamedTensor& tensor : tensors)
        if (!tensor.name.starts_with("model.layers.")) tensor.name = tensor.name.substr(std::string("model.").size());
    }));
    expect_mentions(error_with([](std::vector<NamedTensor>& tensors) {
                      NamedTensor twin = tensors.front();
                      twin.name = twin.name.substr(std::string("model.").size());
                      tensors.push_back(twin);
                    }),
                    ErrorKind::duplicate_name, {"fc.weight"});
  };
};

}  // namespace
}  // namespace lapidary::test::dflash_test
