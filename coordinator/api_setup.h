// From the configuration and the model file to what the HTTP front is told.
#pragma once

#include "common/base/status.h"
#include "common/cluster/served_model.h"
#include "common/config/serve_config.h"
#include "coordinator/api/api_options.h"

namespace paceline {

// Opens tokenizer and chat template. A template that cannot be used leaves chat refused with the reason, the
// rest of the API works; a tokenizer that cannot be used is an error.
StatusOr<ApiOptions> MakeApiOptions(const ServeConfig& config, const ServedModel& served);

}  // namespace paceline
