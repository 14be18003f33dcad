// The pre-tokenizer chain of a model: cuts a normalized text into the splits that the model encodes one by
// one.
//
// Built once from the spec's steps; immutable, any thread. Each step works on the splits of the one before.
// Byte-level and Metaspace steps also change the text, so a result owns its text.
//
//   ASSIGN_OR_RETURN(PreTokenizer pre, PreTokenizer::Create(spec.pre_tokenizer));
//   ASSIGN_OR_RETURN(std::vector<std::string> splits, pre.Split("Hello world", /*at_text_start=*/true));
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/scanner.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

// A text in code points and the ranges it is cut into.
struct SplitText {
  std::u32string text;
  std::vector<TextRange> splits;
};

// Cuts one split at its matches, which lie inside it in order. Empty pieces are dropped.
void CutAtMatches(TextRange split, const std::vector<TextRange>& matches, SplitBehavior behavior, bool invert,
                  std::vector<TextRange>* out);

class PreTokenizer {
 public:
  static StatusOr<PreTokenizer> Create(const std::vector<PreTokenizerStep>& steps);

  // True when splits come out as raw bytes (a byte-level step ran) instead of UTF-8.
  bool byte_level() const { return byte_level_; }

  // `utf8` is valid UTF-8. `at_text_start`: the piece begins where the whole text does.
  StatusOr<std::vector<std::string>> Split(std::string_view utf8, bool at_text_start) const;

 private:
  struct CompiledStep {
    PreTokenizerStep step;
    std::shared_ptr<const Scanner> scanner;  // null: the step only changes text
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };

  static StatusOr<std::vector<CompiledStep>> Compile(const PreTokenizerStep& step);
  static Status ApplyScanner(const CompiledStep& step, SplitText* text);

  std::vector<CompiledStep> steps_;
  bool byte_level_ = false;
};

}  // namespace paceline
