#include "coordinator/request/choice_text.h"

#include <utility>

#include "common/text/tokenizer.h"

namespace paceline {
namespace {

// StopMatcher leaves out tokens below a minimum; the engine says for each token which side it is on.
constexpr uint64_t kNotSearched = 0, kSearched = 1;

}  // namespace

ChoiceText::ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, ChoiceTextOptions options)
    : tokenizer_(std::move(tokenizer)),
      include_stop_string_(options.include_stop_string),
      // Behind a prompt: a space in front of the first word belongs to the text.
      detokenizer_(*tokenizer_, {.skip_special_tokens = options.skip_special_tokens, .at_text_start = false}),
      stops_(std::move(options.stop),
             {.include_stop_string = options.include_stop_string, .tokens_min = kSearched}) {}

bool ChoiceText::OnToken(TokenId id, bool searchable, bool hidden) {
  if (hidden && !include_stop_string_) return false;
  // The text of the id that ends the choice is shown, not searched: the choice has its reason already.
  const uint64_t index = searchable && !hidden ? kSearched : kNotSearched;
  StopMatcher::Step step = stops_.Feed(detokenizer_.Append(id), index);
  ready_ += step.text;
  if (!step.match) return false;
  stop_string_ = std::move(step.match->stop);
  return true;
}

std::string ChoiceText::TakeText(bool finished) {
  if (finished) {
    ready_ += stops_.Feed(detokenizer_.Flush(), kNotSearched).text;
    ready_ += stops_.Finish();
  }
  return std::exchange(ready_, std::string());
}

}  // namespace paceline
