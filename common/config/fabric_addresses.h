// Where the processes of one server listen, from the configuration alone.
//
// One host: unix sockets in --runtime-dir (mode 0700). Several hosts, or workers started by hand without a
// runtime directory: TCP, the coordinator at --master-addr and --master-port, workers on free ports of their
// own address.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/config/serve_config.h"

namespace paceline {

struct ListenAddresses {
  std::string log_publish;  // ZeroMQ endpoints to bind
  std::string log_replay;
  std::string tensor_listen;  // "unix:/path" or "tcp:host:0"
};

// The control endpoint that the coordinator binds and the workers connect to.
std::string ControlEndpoint(const ServeConfig& config);

// This process's own addresses. `name` is unique on the host: "stage-1", "draft". InvalidArgument: --host-ip
// or the route to the master gives an address that peers on other hosts cannot use.
StatusOr<ListenAddresses> WorkerListenAddresses(const ServeConfig& config, const std::string& name);

// The address of this host that packets to `peer` leave from. NotFound: the name does not resolve, no route.
StatusOr<std::string> LocalAddressTowards(const std::string& peer);

}  // namespace paceline
