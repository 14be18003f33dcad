#include "tests/support/safetensors_builder.h"

#include <fmt/core.h>

namespace paceline::testing {

SafetensorsBuilder& SafetensorsBuilder::Add(std::string_view name, DType dtype,
                                            const std::vector<uint64_t>& shape, std::string data) {
  std::string dims;
  for (const uint64_t dim : shape) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim);
  header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                         header_.empty() ? "" : ",", name, Name(dtype), dims, data_.size(),
                         data_.size() + data.size());
  data_ += data;
  names_.emplace_back(name);
  return *this;
}

std::string SafetensorsBuilder::Build() const {
  std::string header =
      R"({"__metadata__":{"format":"pt"})" + std::string(header_.empty() ? "" : ",") + header_ + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');  // as the public writers pad
  return SafetensorsBytes(header, data_);
}

std::string SafetensorsBytes(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  out += header;
  out += data;
  return out;
}

}  // namespace paceline::testing
