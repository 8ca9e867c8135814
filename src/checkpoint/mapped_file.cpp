#include "checkpoint/mapped_file.hpp"

#include <filesystem>

#include <mio/mmap.hpp>
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include "checkpoint/error.hpp"

namespace lapidary {
namespace {

namespace fs = std::filesystem;

mio::mmap_source map_file(const std::string& path) {
  if (size_of_regular_file(path) == 0) {  // which no system maps
    fail(ErrorKind::truncated, path, "file, expected a safetensors header, got 0 bytes");
  }
  mio::mmap_source file;
  std::error_code error;
  file.map(path, error);
  if (error) fail(ErrorKind::io, path, "cannot be mapped: " + error.message());
#if defined(MADV_HUGEPAGE)
  // What is not in memory yet is then read in pieces of a huge page; a wish, what comes of it does not matter.
  madvise(const_cast<char*>(file.data()), file.size(), MADV_HUGEPAGE);
#endif
  return file;
}

}  // namespace

struct MappedFile::Pages {
  mio::mmap_source file;
};

MappedFile::MappedFile(const std::string& path) : path_(path), pages_(new Pages{map_file(path)}) {
  const std::lock_guard lock(mutex_);
  next_ = first_.exchange(this);
}

MappedFile::~MappedFile() {
  const std::lock_guard lock(mutex_);
  std::atomic<MappedFile*>* place = &first_;
  while (*place != this) place = &place->load()->next_;
  *place = next_.load();
}

std::span<const std::byte> MappedFile::bytes() const {
  return {reinterpret_cast<const std::byte*>(pages_->file.data()), pages_->file.size()};
}

const char* MappedFile::path_at(const void* address) {
  for (const MappedFile* file = first_; file; file = file->next_)
    if (address >= file->bytes().data() && address < file->bytes().data() + file->bytes().size()) return file->path_.c_str();
  return nullptr;
}

const char* mapped_file_at(const void* address) { return MappedFile::path_at(address); }

std::uintmax_t size_of_regular_file(const std::string& path) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) fail(ErrorKind::io, path, "cannot be opened: " + error.message());
  if (!fs::is_regular_file(status)) fail(ErrorKind::io, path, "expected a regular file, got something else");
  const std::uintmax_t size_bytes = fs::file_size(path, error);
  if (error) fail(ErrorKind::io, path, "cannot be read: " + error.message());
  return size_bytes;
}

}  // namespace lapidary
