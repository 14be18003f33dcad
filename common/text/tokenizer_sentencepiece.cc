// tokenizer.model of SentencePiece: a reader for the few fields of its ModelProto that decide the ids.
//
// Wire format: https://protobuf.dev/programming-guides/encoding. Fields: sentencepiece_model.proto (pieces 1,
// trainer_spec 2, normalizer_spec 3).

#include <bit>
#include <cstring>
#include <string>

#include "common/text/tokenizer_loaders.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

constexpr char kSpaceMark[] = "\u2581";

struct Field {
  uint32_t number = 0;
  uint64_t varint = 0;     // wire type 0
  std::string_view bytes;  // wire type 2
  uint32_t fixed32 = 0;    // wire type 5
  uint32_t wire_type = 0;
};

// Walks the fields of one message; every length is checked against what is left.
class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  bool done() const { return rest_.empty(); }

  StatusOr<Field> Next() {
    Field field;
    ASSIGN_OR_RETURN(const uint64_t tag, Varint());
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire_type = static_cast<uint32_t>(tag & 7);
    switch (field.wire_type) {
      case 0: {
        ASSIGN_OR_RETURN(field.varint, Varint());
        return field;
      }
      case 1: {
        ASSIGN_OR_RETURN(field.bytes, Take(8));
        return field;
      }
      case 2: {
        ASSIGN_OR_RETURN(const uint64_t length, Varint());
        ASSIGN_OR_RETURN(field.bytes, Take(length));
        return field;
      }
      case 5: {
        ASSIGN_OR_RETURN(field.bytes, Take(4));
        std::memcpy(&field.fixed32, field.bytes.data(), 4);
        return field;
      }
      default:
        return InvalidArgumentError("tokenizer.model: wire type {} of field {}; the file is damaged",
                                    field.wire_type, field.number);
    }
  }

 private:
  StatusOr<uint64_t> Varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    return InvalidArgumentError("tokenizer.model: a number does not end; the file is cut or damaged");
  }

  StatusOr<std::string_view> Take(uint64_t length) {
    if (length > rest_.size()) {
      return InvalidArgumentError("tokenizer.model: a field wants {} bytes, {} are left; the file is cut",
                                  length, rest_.size());
    }
    const std::string_view taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }

  std::string_view rest_;
};

struct TrainerSpec {
  uint64_t model_type = 1;  // 1 unigram, 2 BPE, 3 word, 4 char
  bool byte_fallback = false;
  bool space_as_suffix = false;
  int32_t unknown = 0;
  int32_t bos = 1;
  int32_t eos = 2;
};

struct NormalizerSpec {
  std::string name;
  size_t charsmap_bytes = 0;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

Status ReadPiece(std::string_view message, TokenizerSpec* spec) {
  std::string text;
  float score = 0;
  uint64_t type = 1;
  for (FieldReader reader(message); !reader.done();) {
    ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 1) text = std::string(field.bytes);
    if (field.number == 2) score = std::bit_cast<float>(field.fixed32);
    if (field.number == 3) type = field.varint;
  }
  if (type < 1 || type > 6 || text.empty() || !IsValidUtf8(text)) {
    return InvalidArgumentError("tokenizer.model: piece {}: want UTF-8 text and a type 1 to 6, found type {}",
                                spec->tokens.size(), type);
  }
  const auto token_type = static_cast<TokenType>(type);
  if (token_type == TokenType::kControl || token_type == TokenType::kUserDefined ||
      token_type == TokenType::kUnknown) {
    spec->added_tokens.push_back({.id = static_cast<TokenId>(spec->tokens.size()),
                                  .content = text,
                                  .special = token_type != TokenType::kUserDefined});
  }
  spec->tokens.push_back(std::move(text));
  spec->types.push_back(token_type);
  spec->scores.push_back(score);
  return OkStatus();
}

Status ReadTrainerSpec(std::string_view message, TrainerSpec* out) {
  for (FieldReader reader(message); !reader.done();) {
    ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 3) out->model_type = field.varint;
    if (field.number == 24) out->space_as_suffix = field.varint != 0;
    if (field.number == 35) out->byte_fallback = field.varint != 0;
    if (field.number == 40) out->unknown = static_cast<int32_t>(field.varint);
    if (field.number == 41) out->bos = static_cast<int32_t>(field.varint);
    if (field.number == 42) out->eos = static_cast<int32_t>(field.varint);
  }
  return OkStatus();
}

Status ReadNormalizerSpec(std::string_view message, NormalizerSpec* out) {
  for (FieldReader reader(message); !reader.done();) {
    ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 1) out->name = std::string(field.bytes);
    if (field.number == 2) out->charsmap_bytes = field.bytes.size();
    if (field.number == 3) out->add_dummy_prefix = field.varint != 0;
    if (field.number == 4) out->remove_extra_spaces = field.varint != 0;
    if (field.number == 5) out->escape_spaces = field.varint != 0;
  }
  return OkStatus();
}

std::optional<TokenId> IdOrNone(int32_t id) {
  if (id < 0) return std::nullopt;  // -1 switches the token off
  return id;
}

Status ApplyTrainerSpec(const TrainerSpec& trainer, TokenizerSpec* spec) {
  if (trainer.model_type != 1 && trainer.model_type != 2) {
    return InvalidArgumentError("tokenizer.model: model_type: want 1 (unigram) or 2 (BPE), found {}",
                                trainer.model_type);
  }
  if (trainer.space_as_suffix) {
    return InvalidArgumentError("tokenizer.model: treat_whitespace_as_suffix is not supported");
  }
  spec->model =
      trainer.model_type == 1 ? TokenizerModelKind::kUnigram : TokenizerModelKind::kSentencePieceBpe;
  spec->byte_fallback = trainer.byte_fallback;
  spec->fuse_unknown = true;
  spec->unknown = IdOrNone(trainer.unknown);
  spec->bos = IdOrNone(trainer.bos);
  spec->eos = IdOrNone(trainer.eos);
  return OkStatus();
}

Status ApplyNormalizerSpec(const NormalizerSpec& normalizer, TokenizerSpec* spec) {
  if (normalizer.charsmap_bytes != 0) {
    return InvalidArgumentError(
        "tokenizer.model: normalizer '{}' with a table of {} bytes is not supported; want 'identity', or a "
        "tokenizer.json",
        normalizer.name, normalizer.charsmap_bytes);
  }
  if (!normalizer.escape_spaces) {
    return InvalidArgumentError("tokenizer.model: escape_whitespaces false is not supported");
  }
  using Kind = NormalizerStep::Kind;
  if (normalizer.remove_extra_spaces) spec->normalizer.push_back({.kind = Kind::kCollapseSpaces});
  if (normalizer.add_dummy_prefix)
    spec->normalizer.push_back({.kind = Kind::kPrepend, .content = kSpaceMark});
  spec->normalizer.push_back({.kind = Kind::kReplace, .pattern = " ", .content = kSpaceMark});
  spec->decoder = {{.kind = DecoderStep::Kind::kReplace, .pattern = kSpaceMark, .content = " "},
                   {.kind = DecoderStep::Kind::kByteFallback},
                   {.kind = DecoderStep::Kind::kFuse}};
  if (normalizer.add_dummy_prefix) {
    spec->decoder.push_back({.kind = DecoderStep::Kind::kStrip, .content = " ", .start_count = 1});
  }
  return OkStatus();
}

}  // namespace

StatusOr<TokenizerSpec> TokenizerSpecFromSentencePiece(std::string_view model_proto,
                                                       std::string_view tokenizer_config) {
  TokenizerSpec spec;
  TrainerSpec trainer;
  NormalizerSpec normalizer;
  for (FieldReader reader(model_proto); !reader.done();) {
    ASSIGN_OR_RETURN(const Field field, reader.Next());
    if (field.number == 1) RETURN_IF_ERROR(ReadPiece(field.bytes, &spec));
    if (field.number == 2) RETURN_IF_ERROR(ReadTrainerSpec(field.bytes, &trainer));
    if (field.number == 3) RETURN_IF_ERROR(ReadNormalizerSpec(field.bytes, &normalizer));
  }
  RETURN_IF_ERROR(ApplyTrainerSpec(trainer, &spec));
  RETURN_IF_ERROR(ApplyNormalizerSpec(normalizer, &spec));
  RETURN_IF_ERROR(ApplyTokenizerConfig(tokenizer_config, /*adds_bos_by_class=*/true, &spec));
  return spec;
}

}  // namespace paceline
