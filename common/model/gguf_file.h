// A GGUF model: typed metadata and the tensors of one file, or of all files of a split model.
//
// Opened once and owned by whoever reads from it (the weight source, the tokenizer loader; each may open its
// own: opening maps the file and reads the header only, tensor bytes stay on disk). Views live as long as the
// object. Immutable after Open, so any thread may read; movable.
//
// Metadata is typed when asked for: a key of another type is InvalidArgument that names the key, what was
// wanted and what was found; a missing key is NotFound. The `...Or` forms return the default for a missing
// key and still refuse a wrong type, so a present key is honoured or refused, never skipped.
//
//   ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open("model.gguf"));
//   ASSIGN_OR_RETURN(uint32_t layers, file.GetU32("llama.block_count"));
//   ASSIGN_OR_RETURN(std::vector<std::string_view> tokens, file.GetStrings("tokenizer.ggml.tokens"));
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/gguf_parse.h"
#include "common/model/mapped_file.h"

namespace paceline {

class GgufFile {
 public:
  // `path` is the file, or any file of a split model (`name-00001-of-00003.gguf`): all of them are opened.
  static StatusOr<GgufFile> Open(const std::string& path);

  const std::string& path() const { return files_.front().path(); }

  bool Has(std::string_view key) const;
  std::vector<std::string_view> Keys() const;
  // Nullptr when absent; for callers that print values or take several types.
  const GgufValue* Find(std::string_view key) const;

  StatusOr<std::string_view> GetString(std::string_view key) const;
  StatusOr<std::string_view> GetStringOr(std::string_view key, std::string_view absent) const;
  StatusOr<bool> GetBool(std::string_view key) const;
  StatusOr<bool> GetBoolOr(std::string_view key, bool absent) const;
  // Any integer type whose value fits (writers differ between u32, i32 and u64).
  StatusOr<uint32_t> GetU32(std::string_view key) const;
  StatusOr<uint32_t> GetU32Or(std::string_view key, uint32_t absent) const;
  // f32 or f64.
  StatusOr<double> GetFloat(std::string_view key) const;
  StatusOr<double> GetFloatOr(std::string_view key, double absent) const;

  StatusOr<std::vector<std::string_view>> GetStrings(std::string_view key) const;
  StatusOr<std::vector<float>> GetFloats(std::string_view key) const;  // array of f32
  StatusOr<std::vector<int32_t>> GetI32s(
      std::string_view key) const;  // array of i32, or of u32 whose values fit
  StatusOr<std::string_view> GetBytes(std::string_view key) const;  // array of u8 or i8
  // One number for all layers, or an array with one per layer; an array is returned as it is.
  StatusOr<std::vector<uint32_t>> GetU32OrArray(std::string_view key) const;

  // All tensors, files in order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // Nullptr when absent.
  const GgufTensor* FindTensor(std::string_view name) const;

 private:
  GgufFile() = default;
  Status AddFile(const std::string& path);
  Status AddOtherSplits(const std::string& prefix, uint32_t count);

  std::vector<MappedFile> files_;
  std::map<std::string_view, GgufValue> metadata_;  // of the first file; the others only carry split keys
  std::vector<GgufTensor> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace paceline
