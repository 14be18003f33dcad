// The adapter to PCRE2, for pre-tokenizer patterns without a scanner of our own.
//
// A file may carry a pattern that backtracks exponentially, and a request chooses the text. PCRE2's match
// limit counts per start position and does not see how far a repeat runs, so the work is counted here: a
// callout in front of each item of the pattern pays for the step and for the code points passed since the
// last one. The budget of a text is linear in its length. Depth and heap are limited too.

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/text/scanner.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

constexpr int64_t kStepsPerByte = 400;
constexpr int64_t kStepsFree = 1'000'000;
constexpr uint32_t kHeapLimitKib = 32 * 1024;
constexpr uint32_t kDepthLimit = 100'000;
constexpr size_t kPatternBytesMax = 64 * 1024;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;

std::string ErrorText(int code) {
  std::string text(256, '\0');
  const int length = pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR8*>(text.data()), text.size());
  text.resize(static_cast<size_t>(std::max(length, 0)));
  return text;
}

class RegexScanner : public Scanner {
 public:
  RegexScanner(Code code, std::string pattern) : code_(std::move(code)), pattern_(std::move(pattern)) {}

  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    Run run(code_.get(), text);
    if (!run.ready()) return ResourceExhaustedError("pre-tokenizer pattern: no memory for a match");
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      const int rc = run.MatchAt(i, &end);
      if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) {
        return ResourceExhaustedError(
            "pre-tokenizer pattern '{}': gave up at code point {} of {} ({}); send a shorter text or use a "
            "tokenizer whose pattern does not backtrack",
            pattern_.substr(0, 80), i, text.size(), ErrorText(rc));
      }
      if (rc >= 0 && end > i) matches->push_back({i, end});
      i = std::max(end, i + 1);
    }
    return OkStatus();
  }

 private:
  // One text: its UTF-8 form, where each code point starts, and what is left of the budget.
  class Run {
   public:
    Run(const pcre2_code* code, std::u32string_view text)
        : code_(code),
          data_(pcre2_match_data_create_from_pattern(code, nullptr)),
          context_(pcre2_match_context_create(nullptr)) {
      offsets_.reserve(text.size() + 1);
      for (const char32_t c : text) {
        offsets_.push_back(utf8_.size());
        AppendUtf8(c, &utf8_);
      }
      offsets_.push_back(utf8_.size());
      budget_ = kStepsFree + kStepsPerByte * static_cast<int64_t>(utf8_.size());
      if (!ready()) return;
      pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
      pcre2_set_depth_limit(context_.get(), kDepthLimit);
      pcre2_set_callout(context_.get(), &Run::Pay, this);
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    bool ready() const { return data_ != nullptr && context_ != nullptr; }

    // The match that starts at code point i, PCRE2_ERROR_NOMATCH, or the error that ended the search.
    int MatchAt(size_t i, size_t* end) {
      last_position_ = offsets_[i];
      const int rc =
          pcre2_match(code_, reinterpret_cast<PCRE2_SPTR8>(utf8_.data()), utf8_.size(), offsets_[i],
                      PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
      if (rc >= 0) *end = CodePointAt(pcre2_get_ovector_pointer(data_.get())[1], i);
      return rc;
    }

   private:
    static int Pay(pcre2_callout_block* block, void* self) {
      auto* run = static_cast<Run*>(self);
      const size_t from = std::exchange(run->last_position_, block->current_position);
      const size_t passed = std::max(from, run->last_position_) - std::min(from, run->last_position_);
      run->budget_ -= 1 + static_cast<int64_t>(passed);
      return run->budget_ > 0 ? 0 : PCRE2_ERROR_MATCHLIMIT;
    }

    size_t CodePointAt(size_t offset, size_t from) const {
      return static_cast<size_t>(
          std::lower_bound(offsets_.begin() + static_cast<std::ptrdiff_t>(from), offsets_.end(), offset) -
          offsets_.begin());
    }

    const pcre2_code* code_;
    MatchData data_;
    MatchContext context_;
    int64_t budget_ = 0;
    size_t last_position_ = 0;
    std::string utf8_;
    std::vector<size_t> offsets_;
  };

  Code code_;
  std::string pattern_;
};

// What Oniguruma reads in another way than PCRE2 would, so that it is refused instead of silently misread.
Status CheckDialect(std::string_view pattern) {
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      if (i + 1 < pattern.size() &&
          std::string_view("hHKRXyYO").find(pattern[i + 1]) != std::string_view::npos) {
        return InvalidArgumentError("pre-tokenizer pattern '{}': \\{} is not supported",
                                    pattern.substr(0, 80), pattern[i + 1]);
      }
      ++i;
    } else if (in_class && (c == '[' || pattern.substr(i, 2) == "&&")) {
      return InvalidArgumentError("pre-tokenizer pattern '{}': a set inside a set ('{}') is not supported",
                                  pattern.substr(0, 80), c);
    } else if (c == '[') {
      in_class = true;
    } else if (c == ']') {
      in_class = false;
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Scanner>> MakeRegexScanner(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kPatternBytesMax || !IsValidUtf8(pattern)) {
    return InvalidArgumentError("pre-tokenizer pattern: want 1 to {} bytes of UTF-8, found {} bytes",
                                kPatternBytesMax, pattern.size());
  }
  RETURN_IF_ERROR(CheckDialect(pattern));
  // Ruby syntax: ^ and $ match at every line.
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR8>(pattern.data()), pattern.size(), options, &error, &at,
                          nullptr));
  if (code == nullptr) {
    return InvalidArgumentError("pre-tokenizer pattern '{}': {} at byte {}", pattern.substr(0, 80),
                                ErrorText(error), at);
  }
  return std::make_unique<RegexScanner>(std::move(code), std::string(pattern));
}

}  // namespace paceline
