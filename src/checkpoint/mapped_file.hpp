// A file in memory, as long as it lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace lapidary {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // fails where it is empty, too
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const;  // they begin on a page

  // Takes no lock: in the handler of a signal it might never come.
  static const char* path_at(const void* address);

 private:
  struct Pages;
  static inline std::mutex mutex_;  // of the list of all that are mapped
  static inline std::atomic<MappedFile*> first_ = nullptr;

  const std::string path_;
  const std::unique_ptr<const Pages> pages_;
  std::atomic<MappedFile*> next_ = nullptr;
};

// The path of the mapped file that an address lies in, null where it lies in none: for the handler of a signal, which a file that
// is cut short while it is mapped raises. No file may be mapped or unmapped meanwhile.
const char* mapped_file_at(const void* address);

// Fails for anything else: opening a pipe or a device could wait for ever.
std::uintmax_t size_of_regular_file(const std::string& path);

}  // namespace lapidary
