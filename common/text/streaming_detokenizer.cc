#include "common/text/streaming_detokenizer.h"

#include "common/text/tokenizer.h"
#include "common/text/unicode.h"

namespace paceline {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, DetokenizerOptions options)
    : StreamingDetokenizer(tokenizer.decode_plan(), options) {}

StreamingDetokenizer::StreamingDetokenizer(const DecodePlan& plan, DetokenizerOptions options)
    : plan_(&plan),
      options_(options),
      first_(options.at_text_start),
      strip_left_(options.at_text_start ? plan.strip_count() : 0) {}

std::string StreamingDetokenizer::Append(TokenId id) {
  std::string out;
  if (!plan_->Knows(id) || (options_.skip_special_tokens && plan_->IsSpecial(id))) return out;
  if (first_) {
    pending_ += plan_->FirstBytes(id);
  } else {
    pending_ += plan_->Bytes(id);
  }
  first_ = false;
  Drain(/*at_end=*/false, &out);
  return out;
}

std::string StreamingDetokenizer::Flush() {
  std::string out;
  Drain(/*at_end=*/true, &out);
  return out;
}

void StreamingDetokenizer::Drain(bool at_end, std::string* out) {
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Unit unit = NextUtf8(rest);
    if (unit.kind == Utf8Unit::Kind::kIncomplete && !at_end) break;
    if (unit.kind == Utf8Unit::Kind::kComplete) {
      Emit(rest.substr(0, unit.bytes), out);
    } else {
      const size_t count = plan_->replaces_each_byte() ? unit.bytes : 1;
      for (size_t i = 0; i < count; ++i) Emit(kReplacementCharacter, out);
    }
    rest.remove_prefix(unit.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
}

void StreamingDetokenizer::Emit(std::string_view character, std::string* out) {
  if (strip_left_ > 0) {
    if (character == plan_->strip_content()) {
      --strip_left_;
      return;
    }
    strip_left_ = 0;
  }
  out->append(character);
}

}  // namespace paceline
