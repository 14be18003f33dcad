#include "common/text/decode_plan.h"

#include <array>
#include <optional>
#include <utility>

#include "common/text/byte_alphabet.h"
#include "common/text/token_model.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using Kind = DecoderStep::Kind;

// The English clean-up of BERT's decoder.
std::string CleanUp(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kRules) text = ReplaceAll(text, from, to);
  return text;
}

bool IsFoundInText(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
}

}  // namespace

Status DecodePlan::ReadSteps(const std::vector<DecoderStep>& steps) {
  if (steps.size() == 1 && steps[0].kind == Kind::kByteLevel) {
    form_ = Form::kByteLevel;
    return OkStatus();
  }
  if (steps.size() == 1 && (steps[0].kind == Kind::kMetaspace || steps[0].kind == Kind::kWordPiece)) {
    form_ = steps[0].kind == Kind::kMetaspace ? Form::kMetaspace : Form::kWordPiece;
    replaces_ = steps;
    return OkStatus();
  }
  form_ = steps.empty() ? Form::kJoinedBySpace : Form::kSteps;
  bool fused = false;
  for (const DecoderStep& step : steps) {
    if (step.kind == Kind::kReplace && !fused && !byte_fallback_ && !step.pattern.empty()) {
      replaces_.push_back(step);
    } else if (step.kind == Kind::kByteFallback && !fused) {
      byte_fallback_ = replaces_each_byte_ = true;
    } else if (step.kind == Kind::kFuse) {
      fused = true;
    } else if (step.kind == Kind::kStrip && fused && strip_count_ == 0 && !step.content.empty()) {
      strip_content_ = step.content;
      strip_count_ = step.start_count;
    } else {
      return InvalidArgumentError(
          "decoder: want ByteLevel, Metaspace or WordPiece alone, or Replace.., ByteFallback, Fuse, Strip in "
          "this "
          "order; found another sequence of {} steps",
          steps.size());
    }
  }
  return OkStatus();
}

std::string DecodePlan::Work(std::string_view text, bool raw, bool first) const {
  if (raw) return std::string(text);
  switch (form_) {
    case Form::kJoinedBySpace:
      return std::string(first ? "" : " ").append(text);
    case Form::kByteLevel: {
      std::optional<std::string> bytes = BytesOfAlphabetText(text);
      return bytes ? *std::move(bytes) : std::string(text);
    }
    case Form::kSteps: {
      const int byte = byte_fallback_ ? ParseByteToken(text) : -1;
      if (byte >= 0) return std::string(1, static_cast<char>(byte));
      std::string out(text);
      for (const DecoderStep& step : replaces_) out = ReplaceAll(out, step.pattern, step.content);
      return out;
    }
    case Form::kMetaspace: {
      const bool drop = first && replaces_[0].prepend != PrependScheme::kNever;
      return ReplaceAll(text, replaces_[0].content, drop ? "" : " ");
    }
    case Form::kWordPiece: {
      const DecoderStep& step = replaces_[0];
      const bool continues = !first && text.starts_with(step.content);
      std::string out = first || continues ? "" : " ";
      out.append(continues ? text.substr(step.content.size()) : text);
      return step.cleanup ? CleanUp(std::move(out)) : out;
    }
  }
  return std::string(text);
}

StatusOr<DecodePlan> DecodePlan::Create(const TokenizerSpec& spec) {
  DecodePlan plan;
  RETURN_IF_ERROR(plan.ReadSteps(spec.decoder));
  plan.flags_.resize(spec.tokens.size());
  plan.offsets_.reserve(spec.tokens.size() + 1);
  plan.offsets_.push_back(0);
  plan.raw_.resize(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    plan.raw_[id] = spec.added_tokens_decode_raw && IsFoundInText(spec.types[id]);
    if (!spec.tokens[id].empty()) {
      plan.flags_[id] = kKnown;
      plan.bytes_ += plan.Work(spec.tokens[id], plan.raw_[id], /*first=*/false);
    }
    plan.offsets_.push_back(plan.bytes_.size());
  }
  for (const AddedToken& token : spec.added_tokens) {
    if (token.special) plan.flags_[Index(token.id)] |= kSpecial;
  }
  if (plan.form_ != Form::kByteLevel && plan.form_ != Form::kSteps) plan.texts_ = spec.tokens;
  return plan;
}

std::string_view DecodePlan::Bytes(TokenId id) const {
  const uint64_t begin = offsets_[Index(id)];
  return std::string_view(bytes_).substr(begin, offsets_[Index(id) + 1] - begin);
}

std::string DecodePlan::FirstBytes(TokenId id) const {
  if (texts_.empty()) return std::string(Bytes(id));
  return Work(texts_[Index(id)], raw_[Index(id)], /*first=*/true);
}

}  // namespace paceline
