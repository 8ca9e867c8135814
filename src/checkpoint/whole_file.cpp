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

// A regular file that a new one may take the place of: the one that a link leads to, or a name that is free. Empty for devices,
// pipes and links to nothing, which must stay what they are.
std::string replaceable(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return std::filesystem::canonical(path, error).string();
  return std::filesystem::exists(std::filesystem::symlink_status(path, error)) ? "" : path;
}

void write_to(const std::string& place, const std::string& path, const std::function<void(std::ostream&)>& write) {
  std::ofstream file(place, std::ios::binary | std::ios::trunc);
  write(file);
  file.close();
  if (!file) fail(ErrorKind::io, path, std::string("cannot be written: ") + std::strerror(errno));
}

}  // namespace

void write_whole_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  const std::string final_path = replaceable(path);
  if (final_path.empty()) return write_to(path, path, write);
  TemporaryFile temporary(final_path + ".partial");
  write_to(temporary.path(), path, write);
  temporary.keep_as(final_path);
}

}  // namespace lapidary
