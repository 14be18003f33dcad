#include "common/model/gguf_file.h"

#include <fmt/core.h>

#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "common/model/printable.h"

namespace paceline {
namespace {

constexpr uint32_t kSplitFilesMax = 1024;  // the public record is below 200; bounds open descriptors and work

template <typename T>
T Load(std::span<const std::byte> bytes, uint64_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

Status Missing(std::string_view key, std::string_view wanted) {
  return NotFoundError("metadata key {} is missing (want {})", Printable(key), wanted);
}

Status WrongType(std::string_view key, std::string_view wanted, const GgufValue& found) {
  return InvalidArgumentError("metadata key {}: want {}, found {}", Printable(key), wanted, Describe(found));
}

// A scalar or array element of any integer type as a signed number; a u64 above int64 saturates, which is out
// of range of every reader. Empty for types that are not integers.
std::optional<int64_t> IntegerAt(GgufType type, std::span<const std::byte> bytes, uint64_t index) {
  switch (type) {
    case GgufType::kU8:
      return Load<uint8_t>(bytes, index);
    case GgufType::kI8:
      return Load<int8_t>(bytes, index);
    case GgufType::kU16:
      return Load<uint16_t>(bytes, index);
    case GgufType::kI16:
      return Load<int16_t>(bytes, index);
    case GgufType::kU32:
      return Load<uint32_t>(bytes, index);
    case GgufType::kI32:
      return Load<int32_t>(bytes, index);
    case GgufType::kI64:
      return Load<int64_t>(bytes, index);
    case GgufType::kU64: {
      constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
      return static_cast<int64_t>(std::min(Load<uint64_t>(bytes, index), kMax));
    }
    default:
      return std::nullopt;
  }
}

StatusOr<uint32_t> U32At(std::string_view key, const GgufValue& value, GgufType type, uint64_t index,
                         std::string_view wanted) {
  const std::optional<int64_t> number = IntegerAt(type, value.bytes, index);
  if (!number) return WrongType(key, wanted, value);
  if (*number < 0 || *number > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgumentError("metadata key {}: want 0 to {}, found {}", Printable(key),
                                std::numeric_limits<uint32_t>::max(), *number);
  }
  return static_cast<uint32_t>(*number);
}

bool IsArrayOf(const GgufValue& value, GgufType element) {
  return value.type == GgufType::kArray && value.element_type == element;
}

// The absent-key form of a getter.
template <typename T>
StatusOr<T> ValueOr(bool present, StatusOr<T> value, T absent) {
  if (!present) return absent;
  return value;
}

// "model-00002-of-00003.gguf" -> "model"; empty when the name does not end like a split file of `count`.
std::string SplitPrefix(const std::string& path, uint32_t count) {
  const std::string tail = fmt::format("-of-{:05}.gguf", count);
  const size_t number_bytes = 6;  // "-00002"
  if (path.size() < tail.size() + number_bytes || !path.ends_with(tail)) return "";
  const std::string number = path.substr(path.size() - tail.size() - number_bytes, number_bytes);
  if (number[0] != '-' || number.find_first_not_of("0123456789", 1) != std::string::npos) return "";
  return path.substr(0, path.size() - tail.size() - number_bytes);
}

}  // namespace

StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file;
  RETURN_IF_ERROR(file.AddFile(path));
  auto count = file.GetU32Or("split.count", 1);
  if (!count.ok()) return Annotate(count.status(), path);
  if (*count <= 1) return file;

  // The model's metadata is in file 0, whichever file was named: start over from there.
  const std::string prefix = SplitPrefix(path, *count);
  if (prefix.empty() || *count > kSplitFilesMax) {
    return InvalidArgumentError(
        "{}: one of {} split files, but not named PREFIX-00001-of-{:05}.gguf (at most {} files); rename them",
        path, *count, *count, kSplitFilesMax);
  }
  GgufFile whole;
  RETURN_IF_ERROR(whole.AddFile(fmt::format("{}-00001-of-{:05}.gguf", prefix, *count)));
  RETURN_IF_ERROR(whole.AddOtherSplits(prefix, *count));
  return whole;
}

// Takes the file's tensors, and its metadata when it is the first.
Status GgufFile::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  auto parsed = ParseGguf(mapped.bytes());
  if (!parsed.ok()) return Annotate(parsed.status(), path);
  for (const GgufTensor& tensor : parsed->tensors) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return InvalidArgumentError("{}: tensor {} is also in another file of the split", path,
                                  Printable(tensor.name));
    }
    tensors_.push_back(tensor);
  }
  if (files_.empty()) metadata_ = std::move(parsed->metadata);
  files_.push_back(std::move(mapped));
  return OkStatus();
}

Status GgufFile::AddOtherSplits(const std::string& prefix, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const std::string path = fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count);
    // A look of its own at the split keys, since `metadata_` keeps those of the first file only.
    GgufFile one;
    RETURN_IF_ERROR(one.AddFile(path));
    ASSIGN_OR_RETURN(const uint32_t index, one.GetU32("split.no"));
    ASSIGN_OR_RETURN(const uint32_t stated_count, one.GetU32("split.count"));
    if (index != i || stated_count != count) {
      return InvalidArgumentError("{}: want split.no {} of {}, found {} of {}", path, i, count, index,
                                  stated_count);
    }
    if (i > 0) RETURN_IF_ERROR(AddFile(path));
  }
  ASSIGN_OR_RETURN(const uint32_t stated, GetU32("split.tensors.count"));
  if (stated != tensors_.size()) {
    return InvalidArgumentError("{}: split.tensors.count is {}, the {} files hold {}", path(), stated, count,
                                tensors_.size());
  }
  return OkStatus();
}

bool GgufFile::Has(std::string_view key) const { return metadata_.contains(key); }

std::vector<std::string_view> GgufFile::Keys() const {
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : metadata_) keys.push_back(key);
  return keys;
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

StatusOr<std::string_view> GgufFile::GetString(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, "string");
  if (value->type != GgufType::kString) return WrongType(key, "string", *value);
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

StatusOr<bool> GgufFile::GetBool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, "bool");
  if (value->type != GgufType::kBool) return WrongType(key, "bool", *value);
  const uint8_t byte = Load<uint8_t>(value->bytes);
  if (byte > 1)
    return InvalidArgumentError("metadata key {}: want bool 0 or 1, found {}", Printable(key), byte);
  return byte == 1;
}

StatusOr<uint32_t> GgufFile::GetU32(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, "integer");
  return U32At(key, *value, value->type, 0, "integer");
}

StatusOr<double> GgufFile::GetFloat(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, "f32");
  if (value->type == GgufType::kF32) return Load<float>(value->bytes);
  if (value->type == GgufType::kF64) return Load<double>(value->bytes);
  return WrongType(key, "f32", *value);
}

StatusOr<std::string_view> GgufFile::GetStringOr(std::string_view key, std::string_view absent) const {
  return ValueOr<std::string_view>(Has(key), GetString(key), absent);
}
StatusOr<bool> GgufFile::GetBoolOr(std::string_view key, bool absent) const {
  return ValueOr<bool>(Has(key), GetBool(key), absent);
}
StatusOr<uint32_t> GgufFile::GetU32Or(std::string_view key, uint32_t absent) const {
  return ValueOr<uint32_t>(Has(key), GetU32(key), absent);
}
StatusOr<double> GgufFile::GetFloatOr(std::string_view key, double absent) const {
  return ValueOr<double>(Has(key), GetFloat(key), absent);
}

StatusOr<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  constexpr std::string_view kWanted = "array of string";
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, kWanted);
  if (!IsArrayOf(*value, GgufType::kString)) return WrongType(key, kWanted, *value);
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  std::span<const std::byte> rest = value->bytes;  // the parser walked it: every length fits
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto length = Load<uint64_t>(rest);
    rest = rest.subspan(sizeof(length));
    strings.emplace_back(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length);
  }
  return strings;
}

StatusOr<std::vector<float>> GgufFile::GetFloats(std::string_view key) const {
  constexpr std::string_view kWanted = "array of f32";
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, kWanted);
  if (!IsArrayOf(*value, GgufType::kF32)) return WrongType(key, kWanted, *value);
  std::vector<float> floats(value->count);
  if (!floats.empty()) std::memcpy(floats.data(), value->bytes.data(), value->bytes.size());
  return floats;
}

StatusOr<std::vector<int32_t>> GgufFile::GetI32s(std::string_view key) const {
  constexpr std::string_view kWanted = "array of i32";
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, kWanted);
  if (!IsArrayOf(*value, GgufType::kI32) && !IsArrayOf(*value, GgufType::kU32)) {
    return WrongType(key, kWanted, *value);
  }
  std::vector<int32_t> numbers;
  numbers.reserve(value->count);
  for (uint64_t i = 0; i < value->count; ++i) {
    const int64_t number = *IntegerAt(value->element_type, value->bytes, i);
    if (number > std::numeric_limits<int32_t>::max()) {
      return InvalidArgumentError("metadata key {}: element {} is {}, want i32", Printable(key), i, number);
    }
    numbers.push_back(static_cast<int32_t>(number));
  }
  return numbers;
}

StatusOr<std::string_view> GgufFile::GetBytes(std::string_view key) const {
  constexpr std::string_view kWanted = "array of u8";
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, kWanted);
  if (!IsArrayOf(*value, GgufType::kU8) && !IsArrayOf(*value, GgufType::kI8))
    return WrongType(key, kWanted, *value);
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

StatusOr<std::vector<uint32_t>> GgufFile::GetU32OrArray(std::string_view key) const {
  constexpr std::string_view kWanted = "integer or array of integers";
  const GgufValue* value = Find(key);
  if (value == nullptr) return Missing(key, kWanted);
  const bool array = value->type == GgufType::kArray;
  const GgufType type = array ? value->element_type : value->type;
  std::vector<uint32_t> numbers;
  for (uint64_t i = 0; i < value->count; ++i) {
    ASSIGN_OR_RETURN(const uint32_t number, U32At(key, *value, type, i, kWanted));
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace paceline
