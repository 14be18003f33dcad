// Writes safetensors files for tests, right ones and wrong ones.
//
//   SafetensorsBuilder builder;
//   builder.Add("model.norm.weight", DType::kF32, {64}, bytes);
//   const std::string file = builder.Build();
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/tensor/dtype.h"

namespace paceline::testing {

class SafetensorsBuilder {
 public:
  // shape outermost first.
  SafetensorsBuilder& Add(std::string_view name, DType dtype, const std::vector<uint64_t>& shape,
                          std::string data);
  std::string Build() const;
  std::vector<std::string> Names() const { return names_; }

 private:
  std::vector<std::string> names_;
  std::string header_;
  std::string data_;
};

// A file of exactly this header text and data: length word, header, data.
std::string SafetensorsBytes(std::string_view header, std::string_view data);

}  // namespace paceline::testing
