// The tensors of a model file under canonical names, whatever the file's own names are.
//
// Canonical names are GGUF's (`token_embd.weight`, `blk.3.attn_q.weight`, `output_norm.weight`,
// `output.weight`), since both containers map onto them one to one for the llama family. A source is opened
// once, checks at open that every tensor the config calls for is there with its shape and that no other is (a
// short list of ignorable names aside), and hands out views into the mapped file; a stage that never asks for
// a tensor never reads its bytes.
//
// Threading: immutable after Open, views may be read from any thread. Lifetime: views live as long as the
// source.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status.h"
#include "common/model/model_config.h"
#include "common/tensor/dtype.h"

namespace paceline {

// Rows of a weight: y = W x has W [rows, cols] row-major; a vector (norm, bias) has rows = 1.
struct WeightView {
  std::string name;
  DType dtype = DType::kF32;
  uint64_t rows = 0;
  uint64_t cols = 0;                 // elements of a row
  absl::Span<const std::byte> data;  // rows * RowBytes(dtype, cols); no alignment promised beyond 1
};

// One line of `paceline inspect model`.
struct TensorEntry {
  std::string name;       // canonical
  std::string file_name;  // the name in the file
  DType dtype = DType::kF32;
  uint64_t rows = 0;
  uint64_t cols = 0;
  uint64_t bytes = 0;
  bool ignored = false;  // on the list of tensors that nothing reads
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const ModelConfig& config() const = 0;
  // NotFound with the file's name for it when absent. Optional tensors (biases, rope_freqs, output) are asked
  // for with Has first.
  virtual StatusOr<WeightView> Get(std::string_view canonical_name) const = 0;
  virtual bool Has(std::string_view canonical_name) const = 0;
  virtual std::vector<TensorEntry> Entries() const = 0;
  // Hash (16 bytes as hex) of config, tensor table and a sample of each tensor's bytes: what two workers
  // compare in the handshake. Reading every byte is left to `inspect model --verify`.
  virtual std::string Digest() const = 0;
};

// MODEL of the command line: a folder with config.json, a .gguf file, or a hub id in the cache under HF_HOME.
// Errors: NotFound (no such file, no cache entry), InvalidArgument (damaged, unsupported; names the tensor or
// key).
StatusOr<std::unique_ptr<WeightSource>> OpenModel(const std::string& model);

// RopeInverseFrequencies of the config, divided by the file's `rope_freqs.weight` where it has one (the
// llama3 factors of GGUF). InvalidArgument when a factor is not a positive number.
StatusOr<std::vector<double>> LoadRopeInverseFrequencies(const WeightSource& source);

}  // namespace paceline
