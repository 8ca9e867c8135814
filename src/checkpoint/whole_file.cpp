#include "checkpoint/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/error.hpp"

namespace lapidary {

namespace {

// A file that disappears unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }
  void keep_as(const std::string& final_path) {
    std::error_code error;
    std::filesystem::rename(path_, final_path, error);
    if (error) fail(ErrorKind::io, final_path, "cannot be written: " + error.message());
    kept_ = true;
  }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace

void write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  TemporaryFile temporary(path + ".partial");
  std::ofstream file(temporary.path(), std::ios::binary | std::ios::trunc);
  write(file);
  file.close();
  if (!file) fail(ErrorKind::io, path, std::string("cannot be written: ") + std::strerror(errno));
  temporary.keep_as(path);
}

}  // namespace lapidary
