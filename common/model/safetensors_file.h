// One safetensors file: its tensor table, checked byte for byte, and views into the mapped data.
//
// The format's own rules, all of them refused otherwise: a header of at most 100 MB that starts with `{`; per
// tensor dtype, shape, data_offsets; no duplicate names; the tensors cover the data section from its first
// byte to the end of the file without hole or overlap; sizes equal shape times dtype. A file cut short or
// with bytes behind it is therefore refused (a mapped tail would read as zeros). Immutable after Open, any
// thread may read; views live as long as the object.
//
//   ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open("model.safetensors"));
//   for (const SafetensorsTensor& tensor : file.tensors()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/mapped_file.h"
#include "common/tensor/dtype.h"

namespace paceline {

inline constexpr uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // outermost first; empty for a scalar
  std::span<const std::byte> data;
};

class SafetensorsFile {
 public:
  static StatusOr<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  // In the order of their data.
  std::span<const SafetensorsTensor> tensors() const { return tensors_; }

 private:
  SafetensorsFile(MappedFile file, std::vector<SafetensorsTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  std::vector<SafetensorsTensor> tensors_;
};

// The tensors of a whole file in memory; `bytes` outlives them.
StatusOr<std::vector<SafetensorsTensor>> ParseSafetensors(std::span<const std::byte> bytes);

}  // namespace paceline
