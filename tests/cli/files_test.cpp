// Files that are named on the command line, of whatever kind.
#include <boost/ut.hpp>

#include <sys/stat.h>

#include "support/program.hpp"

namespace lapidary::test {
namespace {

using namespace boost::ut;

const std::string kDense = kFixtures + "/models/dense-bf16";

const suite<"files that are written"> written_files = [] {
  "a link, a pipe and a device stay what they are"_test = [] {
    const TemporaryFolder folder;
    folder.write("ids.json", "[[1,2,3]]");
    folder.write("old", "old");
    mkfifo(folder.path("pipe").c_str(), 0600);
    const auto link_to = [&](const std::string& target) {
      std::filesystem::remove(folder.path("link"));
      std::filesystem::create_symlink(target, folder.path("link"));
    };
    const auto is_link = [&] { return std::filesystem::is_symlink(folder.path("link")); };
    for (const std::string& command :
         {"logits " + kDense + " --ids " + folder.path("ids.json") + " -o ", "bench " + kDense + " -p 0 -n 0 --timeline "}) {
      const Outcome piped = shell("timeout 60 cat " + folder.path("pipe") + " >" + folder.path("out") + " & " + LAPIDARY_PROGRAM + " " +
                                  command + folder.path("pipe") + " && wait");
      expect(piped.status == 0_i && std::filesystem::is_fifo(folder.path("pipe"))) << piped.err;
      expect(read_all(folder.path("out")).size() > 100u);

      for (const char* target : {"old", "new"}) {
        link_to(folder.path(target));
        expect(lapidary(command + folder.path("link")).status == 0_i);
        expect(is_link() && read_all(folder.path(target)).size() > 100u) << target;
      }
      folder.write("old", "old");
      std::filesystem::remove(folder.path("new"));

      link_to("/dev/full");
      const Outcome full = lapidary(command + folder.path("link"));
      expect(full.status == 1_i && full.err.find("No space left") != std::string::npos && is_link()) << full.err;
    }
  };
};

}  // namespace
}  // namespace lapidary::test
