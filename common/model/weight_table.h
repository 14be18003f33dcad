// Which tensors a config calls for, under both containers' names, and the check of a file's tensors against
// them.
//
// Pure: no file is opened here. A file is accepted when every required tensor is there with its shape and a
// type that can be read, and when each other tensor is on the short list of ignorable ones. Everything else
// is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/model_config.h"
#include "common/tensor/dtype.h"

namespace paceline {

enum class Container { kGguf, kHuggingFace };

struct TensorSpec {
  std::string name;       // canonical = GGUF
  std::string file_name;  // the container's
  uint64_t rows = 0;      // 1 for vectors
  uint64_t cols = 0;
  bool is_vector = false;
  bool required = true;
};

// All tensors of the llama family that `config` has, in the order a forward pass meets them.
std::vector<TensorSpec> TensorSpecs(const ModelConfig& config, Container container);

// Precomputed tables that nothing reads: `rotary_emb.inv_freq`, `masked_bias`, `attn_rot_embd`.
bool IsIgnorableTensor(std::string_view file_name);

// A tensor as the container has it.
struct FileTensor {
  std::string file_name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // outermost first
  std::span<const std::byte> data;
};

struct TableRow {
  std::string name;  // canonical; the file's for ignored ones
  std::string file_name;
  DType dtype = DType::kF32;
  uint64_t rows = 0;
  uint64_t cols = 0;
  std::span<const std::byte> data;
  bool ignored = false;
};

// Rows in the file's order. InvalidArgument names the tensor with wanted and found.
StatusOr<std::vector<TableRow>> MatchTensors(const ModelConfig& config, Container container,
                                             std::vector<FileTensor> tensors);

// The type that most weight bytes have.
DType BulkDType(std::span<const TableRow> rows);

}  // namespace paceline
