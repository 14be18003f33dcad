// The normalizer chain of a model: rewrites a piece of text before it is cut and encoded.
//
// Built once from the spec's steps; immutable, any thread. It runs per piece, so a prefix is put in front
// again after every special token, as the reference does. Work is linear in the text (n log n where combining
// marks are sorted).
//
//   ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Create(spec.normalizer));
//   ASSIGN_OR_RETURN(std::string text, normalizer.Normalize("Hello world"));   // "▁Hello▁world" for Llama 2
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/scanner.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

class Normalizer {
 public:
  static StatusOr<Normalizer> Create(const std::vector<NormalizerStep>& steps);

  bool empty() const { return steps_.empty(); }
  // `utf8` is valid UTF-8, and so is the result.
  StatusOr<std::string> Normalize(std::string_view utf8) const;

 private:
  struct CompiledStep {
    NormalizerStep step;
    std::shared_ptr<const Scanner> scanner;  // kReplace with a regular expression
  };
  static StatusOr<std::string> Apply(const CompiledStep& step, std::string text);

  std::vector<CompiledStep> steps_;
};

}  // namespace paceline
