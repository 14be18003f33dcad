#include "common/model/weight_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "common/model/printable.h"

namespace paceline {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";

std::string DescribeShape(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t dim : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", dim);
  return text.empty() ? "a scalar" : text;
}

std::string DescribeShape(const TensorSpec& spec) {
  return spec.is_vector ? fmt::format("{}", spec.cols) : fmt::format("{} x {}", spec.rows, spec.cols);
}

bool ShapeMatches(const TensorSpec& spec, const std::vector<uint64_t>& shape) {
  if (spec.is_vector) return shape.size() == 1 && shape[0] == spec.cols;
  return shape.size() == 2 && shape[0] == spec.rows && shape[1] == spec.cols;
}

// Types that weights may have: floats, and for matrices the quantised ones.
bool TypeMatches(const TensorSpec& spec, DType dtype) {
  return IsFloat(dtype) || (!spec.is_vector && IsQuantized(dtype));
}

class SpecList {
 public:
  explicit SpecList(Container container) : container_(container) {}

  void AddMatrix(std::string gguf, std::string hf, uint64_t rows, uint64_t cols, bool required = true) {
    Add(std::move(gguf), std::move(hf), rows, cols, false, required);
  }
  void AddVector(std::string gguf, std::string hf, uint64_t elements, bool required = true) {
    Add(std::move(gguf), std::move(hf), 1, elements, true, required);
  }
  std::vector<TensorSpec> Take() { return std::move(specs_); }

 private:
  void Add(std::string gguf, std::string hf, uint64_t rows, uint64_t cols, bool is_vector, bool required) {
    std::string file_name = container_ == Container::kGguf ? gguf : std::move(hf);
    specs_.push_back({std::move(gguf), std::move(file_name), rows, cols, is_vector, required});
  }

  Container container_;
  std::vector<TensorSpec> specs_;
};

void AddLayer(const ModelConfig& config, uint32_t layer, SpecList& out) {
  const uint64_t hidden = config.hidden_size;
  const uint64_t inner = config.intermediate_size;
  const uint64_t q_rows = uint64_t{config.num_heads} * config.head_dim;
  const uint64_t kv_rows = uint64_t{config.num_kv_heads} * config.head_dim;
  struct Projection {
    std::string_view gguf;
    std::string_view hf;
    uint64_t rows;
    uint64_t cols;
    bool bias;
  };
  const std::array<Projection, 7> projections = {{
      {"attn_q", "self_attn.q_proj", q_rows, hidden, config.attention_bias},
      {"attn_k", "self_attn.k_proj", kv_rows, hidden, config.attention_bias},
      {"attn_v", "self_attn.v_proj", kv_rows, hidden, config.attention_bias},
      {"attn_output", "self_attn.o_proj", hidden, q_rows, config.attention_output_bias},
      {"ffn_gate", "mlp.gate_proj", inner, hidden, config.mlp_bias},
      {"ffn_up", "mlp.up_proj", inner, hidden, config.mlp_bias},
      {"ffn_down", "mlp.down_proj", hidden, inner, config.mlp_bias},
  }};
  const std::string gguf = fmt::format("blk.{}.", layer);
  const std::string hf = fmt::format("model.layers.{}.", layer);
  out.AddVector(gguf + "attn_norm.weight", hf + "input_layernorm.weight", hidden);
  out.AddVector(gguf + "ffn_norm.weight", hf + "post_attention_layernorm.weight", hidden);
  for (const Projection& p : projections) {
    out.AddMatrix(fmt::format("{}{}.weight", gguf, p.gguf), fmt::format("{}{}.weight", hf, p.hf), p.rows,
                  p.cols);
    if (p.bias)
      out.AddVector(fmt::format("{}{}.bias", gguf, p.gguf), fmt::format("{}{}.bias", hf, p.hf), p.rows);
  }
}

// The row of `tensor`, which the config calls for as `spec`.
StatusOr<TableRow> MatchOne(const TensorSpec& spec, FileTensor tensor) {
  if (!ShapeMatches(spec, tensor.shape)) {
    return InvalidArgumentError("tensor {}: the config calls for {}, the file has {}", spec.file_name,
                                DescribeShape(spec), DescribeShape(tensor.shape));
  }
  if (!TypeMatches(spec, tensor.dtype)) {
    return InvalidArgumentError("tensor {}: want {}, found {}", spec.file_name,
                                spec.is_vector ? "F32, F16 or BF16" : "F32, F16, BF16 or a quantised type",
                                Name(tensor.dtype));
  }
  return TableRow{spec.name, std::move(tensor.file_name), tensor.dtype, spec.rows, spec.cols, tensor.data,
                  false};
}

TableRow IgnoredRow(FileTensor tensor) {
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i)
    rows *= tensor.shape[i];  // the container checked the product
  const uint64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  return {tensor.file_name, tensor.file_name, tensor.dtype, rows, cols, tensor.data, true};
}

Status Missing(const TensorSpec& spec) {
  if (spec.name == kHead) {
    return InvalidArgumentError(
        "tensor {} is missing, but tie_word_embeddings is false; set it to true if the head is the embedding",
        spec.file_name);
  }
  return InvalidArgumentError("tensor {} ({}) is missing", spec.file_name, DescribeShape(spec));
}

TableRow* FindRow(std::vector<TableRow>& rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const TableRow& row) { return !row.ignored && row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

// A tied config beside a stored head: the same bytes are read once; other bytes mean that one of the two
// facts is wrong, and guessing which would give wrong tokens in silence.
Status ResolveTiedHead(std::vector<TableRow>& rows) {
  TableRow* head = FindRow(rows, kHead);
  if (head == nullptr) return OkStatus();
  const TableRow& embedding = *FindRow(rows, kEmbedding);
  const bool equal = head->dtype == embedding.dtype && head->data.size() == embedding.data.size() &&
                     std::memcmp(head->data.data(), embedding.data.data(), head->data.size()) == 0;
  if (!equal) {
    return InvalidArgumentError(
        "tie_word_embeddings is true, but {} and {} hold different values; set it to false to use both",
        head->file_name, embedding.file_name);
  }
  head->ignored = true;
  return OkStatus();
}

}  // namespace

std::vector<TensorSpec> TensorSpecs(const ModelConfig& config, Container container) {
  SpecList list(container);
  list.AddMatrix(std::string(kEmbedding), "model.embed_tokens.weight", config.vocab_size, config.hidden_size);
  if (container == Container::kGguf) list.AddVector("rope_freqs.weight", "", config.rope_dim / 2, false);
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) AddLayer(config, layer, list);
  list.AddVector("output_norm.weight", "model.norm.weight", config.hidden_size);
  list.AddMatrix(std::string(kHead), "lm_head.weight", config.vocab_size, config.hidden_size,
                 !config.tie_word_embeddings);
  return list.Take();
}

bool IsIgnorableTensor(std::string_view file_name) {
  constexpr std::array<std::string_view, 3> kEndings = {".rotary_emb.inv_freq", ".masked_bias",
                                                        ".attn_rot_embd"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return file_name.ends_with(ending); });
}

StatusOr<std::vector<TableRow>> MatchTensors(const ModelConfig& config, Container container,
                                             std::vector<FileTensor> tensors) {
  const std::vector<TensorSpec> specs = TensorSpecs(config, container);
  std::map<std::string_view, bool> found;  // file name of a spec -> seen
  std::map<std::string_view, const TensorSpec*> by_name;
  for (const TensorSpec& spec : specs) by_name.emplace(spec.file_name, &spec);

  std::vector<TableRow> rows;
  rows.reserve(tensors.size());
  for (FileTensor& tensor : tensors) {
    const auto spec = by_name.find(tensor.file_name);
    if (spec != by_name.end()) {
      if (!found.emplace(spec->first, true).second) {
        return InvalidArgumentError("tensor {} is in two files", spec->first);
      }
      ASSIGN_OR_RETURN(TableRow row, MatchOne(*spec->second, std::move(tensor)));
      rows.push_back(std::move(row));
    } else if (IsIgnorableTensor(tensor.file_name)) {
      rows.push_back(IgnoredRow(std::move(tensor)));
    } else {
      return InvalidArgumentError("tensor {} ({} {}) is not one that the config calls for",
                                  Printable(tensor.file_name), Name(tensor.dtype),
                                  DescribeShape(tensor.shape));
    }
  }
  for (const TensorSpec& spec : specs) {
    if (spec.required && !found.contains(spec.file_name)) return Missing(spec);
  }
  if (config.tie_word_embeddings) RETURN_IF_ERROR(ResolveTiedHead(rows));
  return rows;
}

DType BulkDType(std::span<const TableRow> rows) {
  std::array<uint64_t, kNumDTypes> bytes = {};
  for (const TableRow& row : rows) {
    if (!row.ignored) bytes[static_cast<size_t>(row.dtype)] += row.data.size();
  }
  return static_cast<DType>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

}  // namespace paceline
