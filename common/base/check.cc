#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paceline::base_internal {

void CheckFailed(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace paceline::base_internal
