// A random model of the llama family, small enough for a unit test and real enough to be served.
//
// The weights are a function of (seed, tensor, element), so the GGUF file and the Hugging Face folder of the
// same options are the same model (q/k rows in each container's own order), and so are two runs of a test.
// Spread of the weights keeps activations near 1 over the layers; greedy text of it wanders and does not
// collapse to one token.
//
//   TinyLlamaOptions options;
//   options.num_layers = 4;
//   options.dtype = DType::kQ8_0;
//   WriteFile(path, TinyLlamaGguf(options).Build());
#pragma once

#include <cstdint>
#include <string>

#include "common/model/model_config.h"
#include "common/tensor/dtype.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"

namespace paceline::testing {

struct TinyLlamaOptions {
  uint32_t num_layers = 2;
  uint32_t hidden_size = 64;  // whole blocks of 32 where dtype is quantised; so are the two below
  uint32_t intermediate_size = 96;
  uint32_t num_heads = 4;
  uint32_t num_kv_heads = 2;
  uint32_t head_dim = 16;     // even
  uint32_t vocab_size = 320;  // >= 300 with a tokenizer
  uint32_t context_len = 512;
  bool tied = false;
  bool attention_bias = false;  // q, k, v
  bool attention_output_bias = false;
  bool mlp_bias = false;
  double rope_theta = 10000;
  RopeScaling rope_scaling;   // llama3 becomes rope_freqs.weight in GGUF
  DType dtype = DType::kF32;  // of matrices: F32, F16, BF16, Q8_0, Q4_0, Q4_1; folders: the first three
  uint64_t seed = 1;
  // Byte-level BPE in the metadata: ids 0..2 are <|endoftext|>, <|im_start|>, <|im_end|> (end id 2), then the
  // 256 bytes, a few merges, and unused tokens up to vocab_size; with a ChatML template.
  bool tokenizer = false;
};

// The config that a reader of the model gets (GGUF form).
ModelConfig TinyLlamaConfig(const TinyLlamaOptions& options);

// The file's builder, so that a test can take parts out or add wrong ones before Build().
GgufBuilder TinyLlamaGguf(const TinyLlamaOptions& options);

// The text of config.json and the weights of model.safetensors for the same model.
std::string TinyLlamaConfigJson(const TinyLlamaOptions& options);
SafetensorsBuilder TinyLlamaSafetensors(const TinyLlamaOptions& options);

// Writes the bytes; the folder must exist.
void WriteFile(const std::string& path, const std::string& bytes);

// Rows of float32 in a storage type; each row is quantised by itself. `cols` is whole blocks of the type.
std::string QuantizeRows(DType dtype, const std::vector<float>& values, uint64_t cols);

}  // namespace paceline::testing
