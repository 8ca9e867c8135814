#include "metal/archive.hpp"

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>

#include "checkpoint/sha256.hpp"
#include "metal/gpu.hpp"

namespace lapidary::metal {

namespace fs = std::filesystem;

std::string archive_path() {
  fs::path caches;
  if (const char* folder = std::getenv("XDG_CACHE_HOME")) caches = folder;
  else if (const char* home = std::getenv("HOME")) caches = fs::path(home) / "Library" / "Caches";
  std::error_code none;
  if (caches.empty() || !fs::is_directory(caches, none)) return "";
  return caches / "lapidary" / (sha256_hex(std::as_bytes(std::span(std::string_view(kShaderText)))).substr(0, 16) + ".pipelines");
}

Archive::Archive(MTL::Device* device, std::string path) : device_(device), path_(std::move(path)) {
  if (path_.empty()) return;
  const Pool pool;
  NS::Error* error = nullptr;
  const auto descriptor = NS::TransferPtr(MTL::BinaryArchiveDescriptor::alloc()->init());
  std::error_code none;
  if (fs::exists(path_, none)) {
    descriptor->setUrl(NS::URL::fileURLWithPath(text_of(path_)));
    archive_ = NS::TransferPtr(device->newBinaryArchive(descriptor.get(), &error));
    descriptor->setUrl(nullptr);
  }
  if (!archive_) archive_ = NS::TransferPtr(device->newBinaryArchive(descriptor.get(), &error));
}

NS::SharedPtr<MTL::ComputePipelineState> Archive::pipeline(MTL::ComputePipelineDescriptor* descriptor, NS::Error** error) {
  const auto make = [&](MTL::PipelineOption option) {
    return NS::TransferPtr(device_->newComputePipelineState(descriptor, option, nullptr, error));
  };
  if (!archive_) return make(MTL::PipelineOptionNone);
  descriptor->setBinaryArchives(NS::Array::array(archive_.get()));
  if (auto kept = make(MTL::PipelineOptionFailOnBinaryArchiveMiss)) return kept;
  auto compiled = make(MTL::PipelineOptionNone);
  NS::Error* ignored = nullptr;
  if (compiled && archive_->addComputePipelineFunctions(descriptor, &ignored)) has_more_ = true;
  return compiled;
}

void Archive::save() {
  if (!has_more_) return;
  has_more_ = false;
  const Pool pool;
  std::error_code none;
  fs::create_directories(fs::path(path_).parent_path(), none);
  const std::string partial = path_ + ".partial";
  NS::Error* error = nullptr;
  if (archive_->serializeToURL(NS::URL::fileURLWithPath(text_of(partial)), &error)) fs::rename(partial, path_, none);
}

}  // namespace lapidary::metal
