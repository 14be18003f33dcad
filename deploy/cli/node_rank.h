// `--node-rank auto`: which of the nodes this one is, from the launcher's environment.
#pragma once

#include <functional>
#include <string>

#include "common/base/status.h"

namespace paceline {

struct NodeRank {
  uint32_t rank = 0;
  std::string source;  // "--node-rank", "POD_INDEX", "host name"
};

// `setting` is a number or "auto"; sources of auto, the first that is set wins: LWS_WORKER_INDEX, POD_INDEX,
// SLURM_PROCID, OMPI_COMM_WORLD_RANK, PMI_RANK, RANK (with WORLD_SIZE = nnodes), the number at the end of the
// host name (refused for names that end in two numbers). With one node the rank is 0. InvalidArgument:
// outside 0..nnodes-1.
StatusOr<NodeRank> ResolveNodeRank(const std::string& setting, uint32_t num_nodes,
                                   const std::string& host_name,
                                   const std::function<const char*(const char*)>& getenv);

}  // namespace paceline
