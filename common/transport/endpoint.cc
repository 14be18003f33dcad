#include "common/transport/endpoint.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace paceline {

Status PrepareRuntimeDir(const std::string& dir) {
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return UnavailableError("runtime folder {}: {}", dir, std::strerror(errno));
  }
  struct stat info {};
  if (::lstat(dir.c_str(), &info) != 0) {
    return UnavailableError("runtime folder {}: {}", dir, std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) return FailedPreconditionError("runtime folder {} is no folder", dir);
  if (info.st_uid != ::geteuid()) {
    return FailedPreconditionError("runtime folder {} belongs to user {}, we are {}: choose another", dir,
                                   info.st_uid, ::geteuid());
  }
  if ((info.st_mode & 077) != 0) {
    return FailedPreconditionError("runtime folder {} has mode {:o}, others can enter it: chmod 700", dir,
                                   info.st_mode & 0777);
  }
  return OkStatus();
}

StatusOr<std::string> NewIpcEndpoint(const std::string& runtime_dir, const std::string& name) {
  const std::string path = runtime_dir + "/" + name;
  // "-urgent" may follow.
  constexpr size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1 - sizeof("-urgent");
  if (path.size() > kPathMax) {
    return InvalidArgumentError("socket path {} has {} bytes, at most {}: use a shorter runtime folder", path,
                                path.size(), kPathMax);
  }
  return "ipc://" + path;
}

std::string TcpEndpoint(const std::string& host, PortRange ports) {
  const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
  const std::string prefix = fmt::format("tcp://{}{}{}:", v6 ? "[" : "", host, v6 ? "]" : "");
  if (ports.first == 0) return prefix + "*";
  if (ports.first == ports.last) return prefix + std::to_string(ports.first);
  return fmt::format("{}{}-{}", prefix, ports.first, ports.last);
}

StatusOr<std::string> UrgentEndpoint(const std::string& control_endpoint) {
  if (control_endpoint.starts_with("ipc://")) return control_endpoint + "-urgent";
  const size_t colon = control_endpoint.rfind(':');
  uint32_t port = 0;
  const char* end = control_endpoint.data() + control_endpoint.size();
  if (control_endpoint.starts_with("tcp://") && colon > 4) {
    const auto parsed = std::from_chars(control_endpoint.data() + colon + 1, end, port);
    if (parsed.ptr != end) port = 0;
  }
  if (port == 0 || port >= 65535) {
    return InvalidArgumentError(
        "control endpoint {}: want ipc:///path or tcp://host:port, port 1 to 65534 (the "
        "urgent lane takes the next one)",
        control_endpoint);
  }
  return fmt::format("{}:{}", control_endpoint.substr(0, colon), port + 1);
}

}  // namespace paceline
