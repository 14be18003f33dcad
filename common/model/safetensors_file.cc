#include "common/model/safetensors_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/checked_size.h"
#include "common/model/printable.h"
#include "common/model/safetensors_header.h"

namespace paceline {
namespace {

constexpr uint64_t kLengthBytes = 8;  // of the header length in front

StatusOr<DType> DTypeNamed(std::string_view name) {
  constexpr std::array kRead = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI8,
                                DType::kI16, DType::kI32, DType::kI64,  DType::kU8,  DType::kBool};
  for (const DType dtype : kRead) {
    if (Name(dtype) == name) return dtype;
  }
  return InvalidArgumentError("dtype {} is not read (F32, F16, BF16 weights are)", Printable(name));
}

StatusOr<uint64_t> TensorBytes(DType dtype, const std::vector<uint64_t>& shape) {
  uint64_t bytes = Info(dtype).block_bytes;
  for (const uint64_t dim : shape) {
    ASSIGN_OR_RETURN(bytes, CheckedMul(bytes, dim));
  }
  return bytes;
}

// The row's tensor once its bytes are known to be `data[expected_begin ...)`.
StatusOr<SafetensorsTensor> PlaceRow(SafetensorsRow row, std::span<const std::byte> data,
                                     uint64_t expected_begin) {
  SafetensorsTensor tensor{
      .name = std::move(row.name), .dtype = {}, .shape = std::move(row.shape), .data = {}};
  ASSIGN_OR_RETURN(tensor.dtype, DTypeNamed(row.dtype));
  const uint64_t begin = row.offsets[0];
  const uint64_t end = row.offsets[1];
  if (begin != expected_begin || end < begin) {
    return InvalidArgumentError("want its bytes from {} on (no hole, no overlap), found {} to {}",
                                expected_begin, begin, end);
  }
  if (end > data.size()) return InvalidArgumentError("its bytes end at {}, the data at {}", end, data.size());
  ASSIGN_OR_RETURN(const uint64_t bytes, TensorBytes(tensor.dtype, tensor.shape));
  if (bytes != end - begin) {
    return InvalidArgumentError("its shape needs {} bytes of {}, data_offsets hold {}", bytes,
                                Name(tensor.dtype), end - begin);
  }
  tensor.data = data.subspan(begin, bytes);
  return tensor;
}

}  // namespace

StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes)
    return InvalidArgumentError("{} bytes are no safetensors file", bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kSafetensorsHeaderBytesMax) {
    return ResourceExhaustedError("the header states {} bytes, at most {} are read", header_bytes,
                                  kSafetensorsHeaderBytesMax);
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return InvalidArgumentError("the header states {} bytes, the file ends at {}", header_bytes,
                                bytes.size());
  }
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, header_bytes);
  if (!header.starts_with('{')) return InvalidArgumentError("the header does not start with {{");
  ASSIGN_OR_RETURN(std::vector<SafetensorsRow> rows, ParseSafetensorsHeader(header));

  std::sort(rows.begin(), rows.end(),
            [](const SafetensorsRow& a, const SafetensorsRow& b) { return a.offsets < b.offsets; });
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);
  std::vector<SafetensorsTensor> tensors;
  tensors.reserve(rows.size());
  uint64_t end = 0;
  for (SafetensorsRow& row : rows) {
    const std::string what = "tensor " + Printable(row.name);
    auto tensor = PlaceRow(std::move(row), data, end);
    if (!tensor.ok()) return Annotate(tensor.status(), what);
    end += tensor->data.size();
    tensors.push_back(*std::move(tensor));
  }
  if (end != data.size()) {
    return InvalidArgumentError("the tensors cover {} bytes of data, the file holds {}", end, data.size());
  }
  return tensors;
}

StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  auto tensors = ParseSafetensors(file.bytes());
  if (!tensors.ok()) return Annotate(tensors.status(), path);
  return SafetensorsFile(std::move(file), *std::move(tensors));
}

}  // namespace paceline
