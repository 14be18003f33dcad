#include "common/model/gguf_parse.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "common/base/checked_size.h"
#include "common/model/printable.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF fields are copied as they lie in the file");

constexpr uint32_t kNumGgufTypes = 13;
constexpr uint64_t kTensorNameBytesMax = 63;
constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kAlignmentDefault = 32;
// Public models have thousands; 256 MB of empty pairs would become gigabytes of tables.
constexpr uint64_t kTableRowsMax = 1u << 20;

struct GgufTypeInfo {
  std::string_view name;
  uint64_t bytes;  // of a scalar; 0 for string and array
};
constexpr std::array<GgufTypeInfo, kNumGgufTypes> kTypes = {{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"string", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

// Reads the header front to back; every read is checked against the end of the file and the metadata cap.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> file)
      : header_(file.first(std::min<uint64_t>(file.size(), kGgufMetadataBytesMax))),
        file_size_(file.size()) {}

  uint64_t pos() const { return pos_; }
  uint64_t left() const { return header_.size() - pos_; }

  StatusOr<std::span<const std::byte>> Bytes(uint64_t count, std::string_view what) {
    if (count > left()) return TooShort(count, what);
    const auto bytes = header_.subspan(pos_, count);
    pos_ += count;
    return bytes;
  }

  template <typename T>
  StatusOr<T> Read(std::string_view what) {
    ASSIGN_OR_RETURN(const auto bytes, Bytes(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  StatusOr<std::string_view> String(uint64_t bytes_max, std::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(what));
    if (length > bytes_max) {
      return InvalidArgumentError("{}: want at most {} bytes, found {}", what, bytes_max, length);
    }
    ASSIGN_OR_RETURN(const auto bytes, Bytes(length, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  // A count whose elements need at least `element_bytes_min` each: one that cannot fit is refused before any
  // loop.
  StatusOr<uint64_t> Count(uint64_t element_bytes_min, std::string_view what) {
    ASSIGN_OR_RETURN(const uint64_t count, Read<uint64_t>(what));
    if (count > left() / element_bytes_min) {
      return InvalidArgumentError("{} {}: {} bytes are left for them", count, what, left());
    }
    return count;
  }

 private:
  Status TooShort(uint64_t count, std::string_view what) const {
    if (file_size_ > header_.size()) {
      return ResourceExhaustedError("{}: metadata goes past {} bytes, the most that is read", what,
                                    kGgufMetadataBytesMax);
    }
    return InvalidArgumentError("{}: want {} bytes at {}, the file ends at {}", what, count, pos_,
                                file_size_);
  }

  std::span<const std::byte> header_;
  uint64_t file_size_;
  uint64_t pos_ = 0;
};

StatusOr<GgufType> ReadType(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const uint32_t id, cursor.Read<uint32_t>(what));
  if (id >= kNumGgufTypes) return InvalidArgumentError("{}: unknown value type {}", what, id);
  return static_cast<GgufType>(id);
}

// Strings have no fixed size: walk them once, so that later reads of the array need no checks.
Status SkipStrings(Cursor& cursor, uint64_t count, std::string_view what) {
  for (uint64_t i = 0; i < count; ++i) {
    RETURN_IF_ERROR(cursor.String(std::numeric_limits<uint64_t>::max(), what).status());
  }
  return OkStatus();
}

StatusOr<GgufValue> ReadArray(Cursor& cursor, std::span<const std::byte> file, std::string_view what) {
  GgufValue value;
  value.type = GgufType::kArray;
  ASSIGN_OR_RETURN(value.element_type, ReadType(cursor, what));
  if (value.element_type == GgufType::kArray) {
    return InvalidArgumentError("{}: an array of arrays is not GGUF", what);
  }
  const bool strings = value.element_type == GgufType::kString;
  const uint64_t element_bytes =
      strings ? sizeof(uint64_t) : kTypes[static_cast<size_t>(value.element_type)].bytes;
  ASSIGN_OR_RETURN(value.count, cursor.Count(element_bytes, what));
  const uint64_t begin = cursor.pos();
  if (strings) {
    RETURN_IF_ERROR(SkipStrings(cursor, value.count, what));
  } else {
    RETURN_IF_ERROR(cursor.Bytes(value.count * element_bytes, what).status());
  }
  value.bytes = file.subspan(begin, cursor.pos() - begin);
  return value;
}

StatusOr<GgufValue> ReadValue(Cursor& cursor, std::span<const std::byte> file, std::string_view what) {
  ASSIGN_OR_RETURN(const GgufType type, ReadType(cursor, what));
  if (type == GgufType::kArray) return ReadArray(cursor, file, what);
  GgufValue value;
  value.type = type;
  if (type == GgufType::kString) {
    ASSIGN_OR_RETURN(const std::string_view text, cursor.String(std::numeric_limits<uint64_t>::max(), what));
    value.bytes = std::as_bytes(std::span(text));
    return value;
  }
  ASSIGN_OR_RETURN(value.bytes, cursor.Bytes(kTypes[static_cast<size_t>(type)].bytes, what));
  return value;
}

Status ReadMetadata(Cursor& cursor, std::span<const std::byte> file, uint64_t count, ParsedGguf& out) {
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string_view key, cursor.String(kKeyBytesMax, "a metadata key"));
    const std::string what = "metadata key " + Printable(key);
    ASSIGN_OR_RETURN(const GgufValue value, ReadValue(cursor, file, what));
    if (!out.metadata.emplace(key, value).second) return InvalidArgumentError("{}: is there twice", what);
  }
  return OkStatus();
}

StatusOr<uint64_t> Alignment(const ParsedGguf& parsed) {
  const auto found = parsed.metadata.find("general.alignment");
  if (found == parsed.metadata.end()) return kAlignmentDefault;
  const GgufValue& value = found->second;
  if (value.type != GgufType::kU32) {
    return InvalidArgumentError("metadata key general.alignment: want u32, found {}", Describe(value));
  }
  uint32_t alignment = 0;
  std::memcpy(&alignment, value.bytes.data(), sizeof(alignment));
  if (!std::has_single_bit(alignment)) {
    return InvalidArgumentError("metadata key general.alignment: want a power of two, found {}", alignment);
  }
  return alignment;
}

StatusOr<uint64_t> RoundUp(uint64_t size, uint64_t alignment) {
  ASSIGN_OR_RETURN(const uint64_t padded, CheckedAdd(size, alignment - 1));
  return padded & ~(alignment - 1);
}

// Bytes of a tensor; refuses dimensions whose product does not fit (CVE-2025-53630 and its kin).
StatusOr<uint64_t> TensorBytes(const GgufTensor& tensor) {
  constexpr uint64_t kElementsMax = std::numeric_limits<int64_t>::max();
  uint64_t elements = 1;
  for (const uint64_t dim : tensor.dims) {
    ASSIGN_OR_RETURN(elements, CheckedMul(elements, dim));
    if (elements > kElementsMax || dim > kElementsMax) {
      return InvalidArgumentError("dimensions {} x {} x {} x {} are too large", tensor.dims[0],
                                  tensor.dims[1], tensor.dims[2], tensor.dims[3]);
    }
  }
  ASSIGN_OR_RETURN(uint64_t bytes, RowBytes(tensor.dtype, tensor.dims[0]));
  for (size_t i = 1; i < tensor.dims.size(); ++i) {
    ASSIGN_OR_RETURN(bytes, CheckedMul(bytes, tensor.dims[i]));
  }
  return bytes;
}

struct TableRow {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the data section
};

StatusOr<TableRow> ReadTableRow(Cursor& cursor) {
  TableRow row;
  ASSIGN_OR_RETURN(row.tensor.name, cursor.String(kTensorNameBytesMax, "a tensor name"));
  const std::string what = "tensor " + Printable(row.tensor.name);
  ASSIGN_OR_RETURN(row.tensor.num_dims, cursor.Read<uint32_t>(what));
  if (row.tensor.num_dims < 1 || row.tensor.num_dims > row.tensor.dims.size()) {
    return InvalidArgumentError("{}: want 1 to 4 dimensions, found {}", what, row.tensor.num_dims);
  }
  for (uint32_t i = 0; i < row.tensor.num_dims; ++i) {
    ASSIGN_OR_RETURN(row.tensor.dims[i], cursor.Read<uint64_t>(what));
  }
  ASSIGN_OR_RETURN(const uint32_t type_id, cursor.Read<uint32_t>(what));
  auto dtype = DTypeFromGgml(type_id);
  if (!dtype.ok()) return Annotate(dtype.status(), what);
  row.tensor.dtype = *dtype;
  ASSIGN_OR_RETURN(row.offset, cursor.Read<uint64_t>(what));
  return row;
}

StatusOr<std::vector<TableRow>> ReadTable(Cursor& cursor, uint64_t count) {
  std::vector<TableRow> rows;
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(TableRow row, ReadTableRow(cursor));
    if (!names.insert(row.tensor.name).second) {
      return InvalidArgumentError("tensor {}: is there twice", Printable(row.tensor.name));
    }
    rows.push_back(row);
  }
  return rows;
}

// Lays the tensors into the data section: in table order, without gaps, ending with the file.
Status PlaceTensors(std::vector<TableRow> rows, std::span<const std::byte> file, uint64_t data_start,
                    uint64_t alignment, ParsedGguf& out) {
  uint64_t expected = 0;      // offset of the next tensor
  uint64_t end = data_start;  // end of the last tensor's bytes, absolute
  for (TableRow& row : rows) {
    const std::string what = "tensor " + Printable(row.tensor.name);
    auto bytes = TensorBytes(row.tensor);
    if (!bytes.ok()) return Annotate(bytes.status(), what);
    if (row.offset != expected) {
      return InvalidArgumentError("{}: want offset {} (right behind the one before), found {}", what,
                                  expected, row.offset);
    }
    ASSIGN_OR_RETURN(const uint64_t begin, CheckedAdd(data_start, row.offset));
    ASSIGN_OR_RETURN(end, CheckedAdd(begin, *bytes));
    if (end > file.size()) {
      return InvalidArgumentError("{}: its bytes end at {}, the file at {}", what, end, file.size());
    }
    row.tensor.data = file.subspan(begin, *bytes);
    out.tensors.push_back(row.tensor);
    ASSIGN_OR_RETURN(expected, RoundUp(row.offset + *bytes, alignment));
  }
  ASSIGN_OR_RETURN(const uint64_t padded_end, CheckedAdd(data_start, expected));
  if (file.size() != end && file.size() != padded_end) {
    return InvalidArgumentError("the tensors end at {} ({} with padding), the file at {}", end, padded_end,
                                file.size());
  }
  return OkStatus();
}

Status CheckVersion(uint32_t version) {
  if (version == 2 || version == 3) return OkStatus();
  if ((version & 0xFFFFu) == 0) {
    return InvalidArgumentError("version word {:#010x}: a big-endian GGUF file; convert it to little-endian",
                                version);
  }
  return InvalidArgumentError("GGUF version {}: want 2 or 3; convert the model again", version);
}

}  // namespace

std::string_view Name(GgufType type) { return kTypes[static_cast<size_t>(type)].name; }

std::string Describe(const GgufValue& value) {
  if (value.type != GgufType::kArray) return std::string(Name(value.type));
  return fmt::format("array of {} {}", value.count, Name(value.element_type));
}

StatusOr<ParsedGguf> ParseGguf(std::span<const std::byte> file) {
  Cursor cursor(file);
  ASSIGN_OR_RETURN(const auto magic, cursor.Bytes(4, "the GGUF magic"));
  if (std::memcmp(magic.data(), "GGUF", 4) != 0)
    return InvalidArgumentError("not a GGUF file: the magic is missing");
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Read<uint32_t>("the GGUF version"));
  RETURN_IF_ERROR(CheckVersion(version));
  // A table row has at least name length, dimension count, one dimension, type, offset; a pair key length,
  // type, a byte.
  ASSIGN_OR_RETURN(const uint64_t num_tensors, cursor.Count(32, "tensors"));
  ASSIGN_OR_RETURN(const uint64_t num_pairs, cursor.Count(13, "metadata pairs"));

  if (std::max(num_tensors, num_pairs) > kTableRowsMax) {
    return ResourceExhaustedError("{} tensors, {} metadata pairs: at most {} of each are read", num_tensors,
                                  num_pairs, kTableRowsMax);
  }

  ParsedGguf parsed;
  RETURN_IF_ERROR(ReadMetadata(cursor, file, num_pairs, parsed));
  ASSIGN_OR_RETURN(std::vector<TableRow> rows, ReadTable(cursor, num_tensors));
  ASSIGN_OR_RETURN(const uint64_t alignment, Alignment(parsed));
  if (rows.empty() && cursor.pos() == file.size()) return parsed;  // metadata only, e.g. a vocabulary
  ASSIGN_OR_RETURN(const uint64_t data_start, RoundUp(cursor.pos(), alignment));
  RETURN_IF_ERROR(PlaceTensors(std::move(rows), file, data_start, alignment, parsed));
  return parsed;
}

StatusOr<DType> DTypeFromGgml(uint32_t type_id) {
  // Index = ggml type id; an empty dtype has a name and no reader.
  struct Row {
    std::string_view name;
    std::optional<DType> dtype;
  };
  static constexpr std::array<Row, 43> kRows = {{
      {"F32", DType::kF32},
      {"F16", DType::kF16},
      {"Q4_0", DType::kQ4_0},
      {"Q4_1", DType::kQ4_1},
      {"removed", {}},
      {"removed", {}},
      {"Q5_0", DType::kQ5_0},
      {"Q5_1", DType::kQ5_1},
      {"Q8_0", DType::kQ8_0},
      {"Q8_1", {}},
      {"Q2_K", DType::kQ2_K},
      {"Q3_K", DType::kQ3_K},
      {"Q4_K", DType::kQ4_K},
      {"Q5_K", DType::kQ5_K},
      {"Q6_K", DType::kQ6_K},
      {"Q8_K", {}},
      {"IQ2_XXS", {}},
      {"IQ2_XS", {}},
      {"IQ3_XXS", {}},
      {"IQ1_S", {}},
      {"IQ4_NL", DType::kIQ4_NL},
      {"IQ3_S", {}},
      {"IQ2_S", {}},
      {"IQ4_XS", DType::kIQ4_XS},
      {"I8", DType::kI8},
      {"I16", DType::kI16},
      {"I32", DType::kI32},
      {"I64", DType::kI64},
      {"F64", DType::kF64},
      {"IQ1_M", {}},
      {"BF16", DType::kBF16},
      {"removed", {}},
      {"removed", {}},
      {"removed", {}},
      {"TQ1_0", {}},
      {"TQ2_0", {}},
      {"removed", {}},
      {"removed", {}},
      {"removed", {}},
      {"MXFP4", DType::kMXFP4},
      {"NVFP4", {}},
      {"Q1_0", {}},
      {"Q2_0", {}},
  }};
  if (type_id >= kRows.size()) return InvalidArgumentError("unknown ggml type {}", type_id);
  const Row& row = kRows[type_id];
  if (!row.dtype) {
    return InvalidArgumentError(
        "ggml type {} ({}) is not read; take a file in F16, Q8_0, Q4_K or another common type", type_id,
        row.name);
  }
  return *row.dtype;
}

}  // namespace paceline
