// The committed expectations of this folder, and how far logits are from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/protocol/types.h"

namespace paceline::testing {

// Little-endian float32 from a file; dies when it is not there.
std::vector<float> ReadFloats(const std::string& path);

// NAME.golden of make_smollm2_golden.py.
struct Golden {
  struct Row {
    TokenId argmax = 0;
    float largest = 0;
    float gap = 0;               // to the second
    std::vector<float> sampled;  // logits of sampled_ids
  };
  std::vector<TokenId> sampled_ids;
  std::vector<Row> rows;  // by position
};
Golden ReadGolden(const std::string& path);

// Over the golden's sampled ids and its argmax.
struct Distance {
  double cosine = 0;
  double largest_difference = 0;
};
Distance Compare(const Golden& golden, const Golden::Row& want, std::span<const float> logits);

}  // namespace paceline::testing
