// Exit codes of all programs: what a supervisor may conclude from them.
#pragma once

#include "common/base/status.h"

namespace paceline {

enum ExitCode : int {
  kExitOk = 0,           // clean or drained stop
  kExitInternal = 1,     // our defect; a restart is useful
  kExitDeviceLost = 70,  // a restart is useful
  kExitPeersLost = 75,   // peers missing or lost beyond the deadline; a restart is useful
  kExitMismatch = 76,    // a peer of another protocol, build or model; a restart is not useful
  kExitConfig = 78,      // configuration, model file or fit refused; a restart is not useful
};

// What an error at start-up means: what the user gave is wrong (78), or the system was (75, 1).
inline ExitCode ExitCodeOfStartError(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kExitOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded: return kExitPeersLost;
    case absl::StatusCode::kInternal: return kExitInternal;
    default: return kExitConfig;
  }
}

}  // namespace paceline
