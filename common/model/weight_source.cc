#include "common/model/weight_source.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "common/model/gguf_file.h"
#include "common/model/hf_folder.h"
#include "common/model/model_path.h"
#include "common/model/printable.h"
#include "common/model/weight_table.h"

namespace paceline {
namespace {

// XXH3 over what makes two models differ. Not a defence against forgery: it tells apart files, not attackers.
class DigestBuilder {
 public:
  DigestBuilder() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~DigestBuilder() { XXH3_freeState(state_); }
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  void Add(std::string_view text) { XXH3_128bits_update(state_, text.data(), text.size()); }
  // Start, middle and end: enough to tell two trainings apart without reading the file.
  void AddSample(std::span<const std::byte> data) {
    constexpr size_t kWindow = 256;
    const size_t length = std::min(kWindow, data.size());
    for (const size_t start : {size_t{0}, (data.size() - length) / 2, data.size() - length}) {
      XXH3_128bits_update(state_, data.data() + start, length);
    }
  }
  std::string Hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t* state_;
};

// The name is for people and left out: a copy under another name is the same model.
std::string Fingerprint(const ModelConfig& c) {
  return fmt::format("{} v{} h{} i{} l{} n{} k{} d{} c{} e{} t{} r{} p{} s{},{},{},{},{} tie{} b{}{}{}\n",
                     c.architecture, c.vocab_size, c.hidden_size, c.intermediate_size, c.num_layers,
                     c.num_heads, c.num_kv_heads, c.head_dim, c.context_len, c.rms_norm_eps, c.rope_theta,
                     c.rope_dim, static_cast<int>(c.rope_pairing), static_cast<int>(c.rope_scaling.kind),
                     c.rope_scaling.factor, c.rope_scaling.low_freq_factor, c.rope_scaling.high_freq_factor,
                     c.rope_scaling.original_context_len, c.tie_word_embeddings, c.attention_bias,
                     c.attention_output_bias, c.mlp_bias);
}

class FileWeightSource final : public WeightSource {
 public:
  // `files` keeps the mapping alive that the rows point into.
  FileWeightSource(ModelConfig config, std::vector<TableRow> rows, std::shared_ptr<const void> files)
      : config_(std::move(config)), rows_(std::move(rows)), files_(std::move(files)) {
    config_.dtype = BulkDType(rows_);
    for (const TableRow& row : rows_) {
      if (!row.ignored) by_name_.emplace(row.name, &row);
    }
  }

  const ModelConfig& config() const override { return config_; }

  bool Has(std::string_view name) const override { return by_name_.contains(name); }

  StatusOr<WeightView> Get(std::string_view name) const override {
    const auto found = by_name_.find(name);
    if (found == by_name_.end())
      return NotFoundError("tensor {} is not in {}", Printable(name), config_.name);
    const TableRow& row = *found->second;
    return WeightView{row.name, row.dtype, row.rows, row.cols, {row.data.data(), row.data.size()}};
  }

  std::vector<TensorEntry> Entries() const override {
    std::vector<TensorEntry> entries;
    entries.reserve(rows_.size());
    for (const TableRow& row : rows_) {
      entries.push_back(
          {row.name, row.file_name, row.dtype, row.rows, row.cols, row.data.size(), row.ignored});
    }
    return entries;
  }

  std::string Digest() const override {
    DigestBuilder digest;
    digest.Add(Fingerprint(config_));
    for (const auto& [name, row] : by_name_) {
      digest.Add(fmt::format("{} {} {} {}\n", name, paceline::Name(row->dtype), row->rows, row->cols));
      digest.AddSample(row->data);
    }
    return digest.Hex();
  }

 private:
  ModelConfig config_;
  std::vector<TableRow> rows_;                           // in the file's order
  std::map<std::string_view, const TableRow*> by_name_;  // canonical name -> row, without ignored ones
  std::shared_ptr<const void> files_;
};

// ggml order, contiguous first, to the outermost-first shape that the table compares.
std::vector<uint64_t> Shape(const GgufTensor& tensor) {
  return {std::reverse_iterator(tensor.dims.begin() + tensor.num_dims),
          std::reverse_iterator(tensor.dims.begin())};
}

StatusOr<std::unique_ptr<WeightSource>> Assemble(const ModelConfig& config, Container container,
                                                 std::vector<FileTensor> tensors,
                                                 std::shared_ptr<const void> files, const std::string& path) {
  auto rows = MatchTensors(config, container, std::move(tensors));
  if (!rows.ok()) return Annotate(rows.status(), path);
  return std::make_unique<FileWeightSource>(config, *std::move(rows), std::move(files));
}

StatusOr<std::unique_ptr<WeightSource>> OpenGguf(const std::string& path) {
  ASSIGN_OR_RETURN(GgufFile opened, GgufFile::Open(path));
  auto file = std::make_shared<const GgufFile>(std::move(opened));
  ASSIGN_OR_RETURN(ModelConfig config, ModelConfigFromGguf(*file));
  std::vector<FileTensor> tensors;
  for (const GgufTensor& tensor : file->tensors()) {
    tensors.push_back({std::string(tensor.name), tensor.dtype, Shape(tensor), tensor.data});
  }
  return Assemble(config, Container::kGguf, std::move(tensors), file, path);
}

StatusOr<std::unique_ptr<WeightSource>> OpenFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const HfFolder folder, HfFolder::Open(path));
  auto config = ModelConfigFromJson(folder.config(), folder.Name());
  if (!config.ok()) return Annotate(config.status(), path + "/config.json");
  ASSIGN_OR_RETURN(HfWeights opened, HfWeights::Open(path));
  auto weights = std::make_shared<const HfWeights>(std::move(opened));
  std::vector<FileTensor> tensors;
  for (const SafetensorsFile& file : weights->files()) {
    for (const SafetensorsTensor& tensor : file.tensors()) {
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
    }
  }
  return Assemble(*config, Container::kHuggingFace, std::move(tensors), weights, path);
}

}  // namespace

StatusOr<std::unique_ptr<WeightSource>> OpenModel(const std::string& model) {
  ASSIGN_OR_RETURN(const ModelPath where, ResolveModel(model));
  return where.kind == ModelPath::Kind::kGguf ? OpenGguf(where.path) : OpenFolder(where.path);
}

StatusOr<std::vector<double>> LoadRopeInverseFrequencies(const WeightSource& source) {
  std::vector<double> inv_freq = RopeInverseFrequencies(source.config());
  if (!source.Has("rope_freqs.weight")) return inv_freq;
  ASSIGN_OR_RETURN(const WeightView factors, source.Get("rope_freqs.weight"));
  if (factors.dtype != DType::kF32) {
    return InvalidArgumentError("tensor rope_freqs.weight: want F32, found {}", Name(factors.dtype));
  }
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    float factor = 0;
    std::memcpy(&factor, factors.data.data() + i * sizeof(float), sizeof(float));
    if (!std::isfinite(factor) || factor <= 0) {
      return InvalidArgumentError("tensor rope_freqs.weight: element {} is {}, want a positive number", i,
                                  factor);
    }
    inv_freq[i] /= factor;
  }
  return inv_freq;
}

}  // namespace paceline
