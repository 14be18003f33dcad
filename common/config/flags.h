// The table of all flags: one row a flag, for the command line, the environment, YAML and --help alike.
//
// `--max-model-len` = `max-model-len:` in YAML = PACELINE_MAX_MODEL_LEN. Underscores in long names equal
// dashes. Source of names and rules: vLLM's `serve` flags; "(own)" ones are Paceline's.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace paceline {

enum class FlagKind {
  kBool,  // --x / --no-x (for enable-x: --no-enable-x)
  kInt,   // plain integer
  kSize,  // integer with k, K, m, M (32k = 32000, 32K = 32768)
  kFloat,
  kString,
  kList,  // repeated or comma-separated strings
  kJson,  // JSON text, dotted keys, or a YAML mapping
};

struct FlagSpec {
  std::string_view name;  // without dashes in front
  FlagKind kind = FlagKind::kString;
  std::string_view default_text;  // as --help shows it; empty = none
  std::string_view help;          // one line: unit, range, reason of a default that differs from vLLM's
  // Not empty: the flag is known and refused, with this reason (exit 78).
  std::string_view refused = {};
};

std::span<const FlagSpec> AllFlags();
const FlagSpec* FindFlag(std::string_view name);  // dashes or underscores; nullptr if unknown

// "PACELINE_MAX_MODEL_LEN" for "max-model-len".
std::string EnvName(std::string_view flag_name);

// The closest known flag by edit distance (at most a third of the length), or empty.
std::string_view NearestFlag(std::string_view name);

// What to write instead of a name of another program ("tp-size" -> "--tensor-parallel-size"), or empty.
std::string_view ForeignFlagHint(std::string_view name);

// "32k" -> 32000, "32K" -> 32768, "1m"/"1M" -> 1000000/1048576, plain and negative integers.
StatusOr<int64_t> ParseSize(std::string_view text);

}  // namespace paceline
