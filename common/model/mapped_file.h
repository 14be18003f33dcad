// A file mapped read-only: the bytes of a model without a copy.
//
// Owned by the reader of the container that lies in it; movable, the mapping stays where it is. Immutable, so
// any thread may read. Pages are read from disk on first touch. A file that somebody shortens while it is
// mapped faults the reader (SIGBUS); model files are replaced by rename, never rewritten in place.
//
//   ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open("model.gguf"));
//   std::span<const std::byte> bytes = file.bytes();
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "common/base/status.h"

namespace paceline {

class MappedFile {
 public:
  // NotFound when there is no such file; InvalidArgument when it is empty or not a regular file.
  static StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

// The whole text of a small file (JSON beside the weights). ResourceExhausted above `bytes_max`.
StatusOr<std::string> ReadSmallFile(const std::string& path, size_t bytes_max);

}  // namespace paceline
