// Writes GGUF files for tests: any metadata, any tensors, also wrong ones.
//
//   GgufBuilder builder;
//   builder.AddString("general.architecture", "llama").AddU32("llama.block_count", 2);
//   builder.AddTensor("output_norm.weight", DType::kF32, {64}, bytes);
//   const std::string file = builder.Build();
//
// Build() gives the bytes of a valid file as long as the parts were valid; damage is done to those bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/gguf_parse.h"
#include "common/tensor/dtype.h"

namespace paceline::testing {

class GgufBuilder {
 public:
  GgufBuilder& AddU32(std::string_view key, uint32_t value);
  GgufBuilder& AddU16(std::string_view key, uint16_t value);
  GgufBuilder& AddF32(std::string_view key, float value);
  GgufBuilder& AddBool(std::string_view key, bool value);
  GgufBuilder& AddString(std::string_view key, std::string_view value);
  GgufBuilder& AddStrings(std::string_view key, const std::vector<std::string>& values);
  GgufBuilder& AddF32s(std::string_view key, const std::vector<float>& values);
  GgufBuilder& AddI32s(std::string_view key, const std::vector<int32_t>& values);
  GgufBuilder& AddU32s(std::string_view key, const std::vector<uint32_t>& values);
  GgufBuilder& AddU8s(std::string_view key, std::string_view values);
  // A pair with its payload as it shall lie in the file.
  GgufBuilder& AddRaw(std::string_view key, uint32_t type_id, std::string payload);
  // Takes the pair out again, so that a test can leave one out of an otherwise complete model.
  GgufBuilder& Remove(std::string_view key);

  // dims in ggml order (contiguous first). `data` holds the rows.
  GgufBuilder& AddTensor(std::string_view name, DType dtype, std::vector<uint64_t> dims, std::string data);
  GgufBuilder& RemoveTensor(std::string_view name);

  std::string Build() const;

  // Byte offsets where one part of the last Build() ends and the next begins: truncation tests cut there.
  std::vector<size_t> Borders() const;

 private:
  struct Pair {
    std::string key;
    uint32_t type_id = 0;
    std::string payload;
  };
  struct Tensor {
    std::string name;
    uint32_t type_id = 0;
    std::vector<uint64_t> dims;
    std::string data;
  };
  std::string Assemble(std::vector<size_t>* borders) const;

  std::vector<Pair> pairs_;
  std::vector<Tensor> tensors_;
};

// ggml's id of a dtype.
uint32_t GgmlTypeId(DType dtype);

}  // namespace paceline::testing
