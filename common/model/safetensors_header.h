// The JSON header of a safetensors file as a list of rows, read without building a tree.
//
// A tree of a hostile 100 MB header would take gigabytes; this handler keeps the rows only and refuses every
// shape of JSON that the format does not have. SafetensorsFile is what other code uses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace paceline {

struct SafetensorsRow {
  std::string name;
  std::string dtype;  // as written
  std::vector<uint64_t> shape;
  std::vector<uint64_t> offsets;  // begin, end; from the start of the data section
};

// Every row has a dtype, a shape and two offsets; names are unique; `__metadata__` is checked and left out.
StatusOr<std::vector<SafetensorsRow>> ParseSafetensorsHeader(std::string_view header);

}  // namespace paceline
