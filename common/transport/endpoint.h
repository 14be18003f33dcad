// Endpoints: where sockets bind and connect, as ZeroMQ writes them.
//
//   "ipc:///run/paceline-812/control"   a unix socket in a folder only we may enter (0700)
//   "tcp://127.0.0.1:29501"             one port
//   "tcp://127.0.0.1:*"                 any free port
//   "tcp://10.0.0.2:4000-4010"          the first free port of a range (--fabric-ports)
//
// The last two are for binding; the bound socket states its real endpoint. Whether an address may be used
// (--fabric-insecure, loopback) is the configuration's check, not this file's.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace paceline {

// 0-0 = any free port.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
};

// Makes `dir` with mode 0700, or checks that it is a folder of ours that nobody else may enter.
Status PrepareRuntimeDir(const std::string& dir);

// "ipc://dir/name". Unix socket paths are short (107 bytes): a longer one is refused with the length.
StatusOr<std::string> NewIpcEndpoint(const std::string& runtime_dir, const std::string& name);

// "tcp://host:*", "tcp://host:port" or "tcp://host:first-last"; IPv6 hosts in brackets.
std::string TcpEndpoint(const std::string& host, PortRange ports = {});

// The urgent lane's endpoint follows from the control lane's, so that a worker is given one address:
// ipc path + "-urgent"; tcp port + 1.
StatusOr<std::string> UrgentEndpoint(const std::string& control_endpoint);

}  // namespace paceline
