// One GGUF file taken apart: typed metadata and the tensor table, every size checked against the file.
//
// Container of `ggml/docs/gguf.md`, version 3 (2 has the same layout). Limits: metadata and tensor table end
// within 256 MB, at most 2^20 pairs and 2^20 tensors, at most 4 dimensions, tensor names below 64 bytes, keys
// and names unique, no arrays of arrays, tensors laid out in table order with nothing between them but
// alignment padding, and nothing behind the last one but its own padding. GgufFile (gguf_file.h) is what
// other code uses; this header is its first half.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/dtype.h"

namespace paceline {

// Metadata and tensor table of one file; protects against a header that claims to be the file.
inline constexpr uint64_t kGgufMetadataBytesMax = 256u << 20;

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
std::string_view Name(GgufType type);

// A value as it lies in the file; views into the mapping.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // of arrays
  uint64_t count = 1;                     // elements of an array
  std::span<const std::byte> bytes;       // scalar: its bytes; string: its text; array: the elements
};
// "string", "array of 3 f32".
std::string Describe(const GgufValue& value);

struct GgufTensor {
  std::string_view name;
  DType dtype = DType::kF32;
  uint32_t num_dims = 0;                        // 1..4
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};  // ggml order: dims[0] is contiguous
  std::span<const std::byte> data;              // whole rows; alignment of the file, 32 by default
  uint64_t rows() const { return dims[1] * dims[2] * dims[3]; }  // cannot overflow: the parser checked
};

struct ParsedGguf {
  std::map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // in file order
};

// `file` outlives the result. Errors are InvalidArgument (ResourceExhausted for the metadata cap) and name
// the key or tensor; the caller adds the path.
StatusOr<ParsedGguf> ParseGguf(std::span<const std::byte> file);

// Dtype of a ggml type id; InvalidArgument names types that exist and are not read.
StatusOr<DType> DTypeFromGgml(uint32_t type_id);

}  // namespace paceline
