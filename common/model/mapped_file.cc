#include "common/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace paceline {
namespace {

// Closes the descriptor on every way out; a mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Status ErrnoStatus(const std::string& path, const char* doing) {
  const int code = errno;
  if (code == ENOENT || code == ENOTDIR) return NotFoundError("{}: no such file", path);
  return FailedPreconditionError("{}: cannot {}: {}", path, doing, std::strerror(code));
}

StatusOr<size_t> RegularFileBytes(int fd, const std::string& path) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return ErrnoStatus(path, "stat");
  if (!S_ISREG(info.st_mode)) return InvalidArgumentError("{}: want a regular file", path);
  return static_cast<size_t>(info.st_size);
}

}  // namespace

StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO by mistake is refused below instead of waiting for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return ErrnoStatus(path, "open");
  ASSIGN_OR_RETURN(const size_t size, RegularFileBytes(file.fd, path));
  if (size == 0) return InvalidArgumentError("{}: the file is empty", path);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (address == MAP_FAILED) return ErrnoStatus(path, "map");
  return MappedFile(path, {static_cast<const std::byte*>(address), size});
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

StatusOr<std::string> ReadSmallFile(const std::string& path, size_t bytes_max) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return ErrnoStatus(path, "open");
  ASSIGN_OR_RETURN(const size_t size, RegularFileBytes(file.fd, path));
  if (size > bytes_max) {
    return ResourceExhaustedError("{}: {} bytes, at most {} are read", path, size, bytes_max);
  }
  std::string text(size, '\0');
  size_t filled = 0;
  while (filled < size) {
    const ssize_t got = ::read(file.fd, text.data() + filled, size - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(path, "read");
    if (got == 0) return DataLossError("{}: ends after {} of {} bytes", path, filled, size);
    filled += static_cast<size_t>(got);
  }
  return text;
}

}  // namespace paceline
