// Whether a draft speaks the target's ids: what `draft_model` rests on, asked before any weight is read.
#pragma once

#include <string>

#include "common/base/status.h"

namespace paceline {

// Every id of the draft stands for the same token in the target. InvalidArgument: both sizes, or the first id
// that differs. Both as MODEL of the command line; padding rows beyond the tokenizer's ids do not count.
Status CheckSameVocabulary(const std::string& target_model, const std::string& draft_model);

}  // namespace paceline
