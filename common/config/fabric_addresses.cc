#include "common/config/fabric_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>

#include "common/base/unique_fd.h"

namespace paceline {
namespace {

struct FreeAddrinfo {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

std::string Bracketed(const std::string& host) {
  return host.find(':') == std::string::npos || host.starts_with('[') ? host : "[" + host + "]";
}

StatusOr<std::string> OwnHost(const ServeConfig& config) {
  if (!config.host_ip.empty()) return config.host_ip;
  ASSIGN_OR_RETURN(std::string host, LocalAddressTowards(config.master_addr));
  if (config.num_nodes > 1 && IsLoopback(host)) {
    return InvalidArgumentError(
        "the route to --master-addr {} leaves from {}, which other hosts cannot reach; set --host-ip",
        config.master_addr, host);
  }
  return host;
}

}  // namespace

std::string ControlEndpoint(const ServeConfig& config) {
  if (!config.runtime_dir.empty()) return fmt::format("ipc://{}/control", config.runtime_dir);
  return fmt::format("tcp://{}:{}", Bracketed(config.master_addr), config.master_port);
}

StatusOr<ListenAddresses> WorkerListenAddresses(const ServeConfig& config, const std::string& name) {
  if (!config.runtime_dir.empty()) {
    return ListenAddresses{fmt::format("ipc://{}/{}-log", config.runtime_dir, name),
                           fmt::format("ipc://{}/{}-replay", config.runtime_dir, name),
                           fmt::format("unix:{}/{}-frames", config.runtime_dir, name)};
  }
  ASSIGN_OR_RETURN(const std::string host, OwnHost(config));
  const std::string endpoint = fmt::format("tcp://{}:*", Bracketed(host));
  return ListenAddresses{endpoint, endpoint, fmt::format("tcp:{}:0", Bracketed(host))};
}

StatusOr<std::string> LocalAddressTowards(const std::string& peer) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* raw = nullptr;
  if (const int error = getaddrinfo(peer.c_str(), "9", &hints, &raw); error != 0) {
    return NotFoundError("'{}' does not resolve: {}", peer, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, FreeAddrinfo> list(raw);
  std::string reason = "no address";
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    // A connected datagram socket sends nothing; it only asks the routing table.
    const UniqueFd fd(::socket(info->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd.valid() || ::connect(fd.get(), info->ai_addr, info->ai_addrlen) != 0) {
      reason = std::strerror(errno);
      continue;
    }
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    std::array<char, NI_MAXHOST> host{};
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&local), length, host.data(), host.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      return std::string(host.data());
    }
  }
  return NotFoundError("no route to '{}': {}", peer, reason);
}

}  // namespace paceline
