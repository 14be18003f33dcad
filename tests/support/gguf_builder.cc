#include "tests/support/gguf_builder.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace paceline::testing {
namespace {

constexpr size_t kAlignment = 32;

template <typename T>
std::string Bytes(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Text(std::string_view text) { return Bytes<uint64_t>(text.size()) + std::string(text); }

uint32_t Id(GgufType type) { return static_cast<uint32_t>(type); }

template <typename T>
std::string Array(GgufType element, const std::vector<T>& values) {
  std::string out = Bytes(Id(element)) + Bytes<uint64_t>(values.size());
  for (const T& value : values) out += Bytes(value);
  return out;
}

void Pad(std::string& out) { out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment, '\0'); }

}  // namespace

uint32_t GgmlTypeId(DType dtype) {
  for (uint32_t id = 0; id < 64; ++id) {
    const auto known = DTypeFromGgml(id);
    if (known.ok() && *known == dtype) return id;
  }
  CHECK(false) << "no ggml type for " << Name(dtype);
  return 0;
}

GgufBuilder& GgufBuilder::AddRaw(std::string_view key, uint32_t type_id, std::string payload) {
  pairs_.push_back({std::string(key), type_id, std::move(payload)});
  return *this;
}
GgufBuilder& GgufBuilder::AddU32(std::string_view key, uint32_t value) {
  return AddRaw(key, Id(GgufType::kU32), Bytes(value));
}
GgufBuilder& GgufBuilder::AddU16(std::string_view key, uint16_t value) {
  return AddRaw(key, Id(GgufType::kU16), Bytes(value));
}
GgufBuilder& GgufBuilder::AddF32(std::string_view key, float value) {
  return AddRaw(key, Id(GgufType::kF32), Bytes(value));
}
GgufBuilder& GgufBuilder::AddBool(std::string_view key, bool value) {
  return AddRaw(key, Id(GgufType::kBool), Bytes<uint8_t>(value ? 1 : 0));
}
GgufBuilder& GgufBuilder::AddString(std::string_view key, std::string_view value) {
  return AddRaw(key, Id(GgufType::kString), Text(value));
}
GgufBuilder& GgufBuilder::AddStrings(std::string_view key, const std::vector<std::string>& values) {
  std::string payload = Bytes(Id(GgufType::kString)) + Bytes<uint64_t>(values.size());
  for (const std::string& value : values) payload += Text(value);
  return AddRaw(key, Id(GgufType::kArray), std::move(payload));
}
GgufBuilder& GgufBuilder::AddF32s(std::string_view key, const std::vector<float>& values) {
  return AddRaw(key, Id(GgufType::kArray), Array(GgufType::kF32, values));
}
GgufBuilder& GgufBuilder::AddI32s(std::string_view key, const std::vector<int32_t>& values) {
  return AddRaw(key, Id(GgufType::kArray), Array(GgufType::kI32, values));
}
GgufBuilder& GgufBuilder::AddU32s(std::string_view key, const std::vector<uint32_t>& values) {
  return AddRaw(key, Id(GgufType::kArray), Array(GgufType::kU32, values));
}
GgufBuilder& GgufBuilder::AddU8s(std::string_view key, std::string_view values) {
  return AddRaw(key, Id(GgufType::kArray),
                Bytes(Id(GgufType::kU8)) + Bytes<uint64_t>(values.size()) + std::string(values));
}

GgufBuilder& GgufBuilder::Remove(std::string_view key) {
  const size_t removed = std::erase_if(pairs_, [&](const Pair& pair) { return pair.key == key; });
  CHECK_EQ(removed, 1u) << key;
  return *this;
}

GgufBuilder& GgufBuilder::AddTensor(std::string_view name, DType dtype, std::vector<uint64_t> dims,
                                    std::string data) {
  tensors_.push_back({std::string(name), GgmlTypeId(dtype), std::move(dims), std::move(data)});
  return *this;
}

GgufBuilder& GgufBuilder::RemoveTensor(std::string_view name) {
  const size_t removed = std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  CHECK_EQ(removed, 1u) << name;
  return *this;
}

std::string GgufBuilder::Assemble(std::vector<size_t>* borders) const {
  std::string out;
  const auto mark = [&] {
    if (borders != nullptr) borders->push_back(out.size());
  };
  out += "GGUF";
  mark();
  out += Bytes<uint32_t>(3);
  mark();
  out += Bytes<uint64_t>(tensors_.size());
  mark();
  out += Bytes<uint64_t>(pairs_.size());
  for (const Pair& pair : pairs_) {
    mark();
    out += Text(pair.key);
    mark();
    out += Bytes(pair.type_id);
    mark();
    out += pair.payload;
  }
  size_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    mark();
    out += Text(tensor.name);
    mark();
    out += Bytes<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) out += Bytes(dim);
    mark();
    out += Bytes(tensor.type_id) + Bytes<uint64_t>(offset);
    offset += (tensor.data.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  mark();
  Pad(out);
  for (const Tensor& tensor : tensors_) {
    mark();
    out += tensor.data;
    Pad(out);
  }
  return out;
}

std::string GgufBuilder::Build() const { return Assemble(nullptr); }

std::vector<size_t> GgufBuilder::Borders() const {
  std::vector<size_t> borders;
  Assemble(&borders);
  return borders;
}

}  // namespace paceline::testing
