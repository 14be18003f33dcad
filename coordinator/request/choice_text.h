// ChoiceText: the text of one choice, from ids to what a client may see.
//
// A streaming detokenizer feeds a stop matcher: characters that are not whole and possible starts of a stop
// string are held back, so text, ids, logprobs and usage all end at the token that completed the stop.
// Owner: the GenerationRequest; used by the engine's thread only. The tokenizer is shared and immutable.
//
//   request.text = std::make_shared<ChoiceText>(tokenizer, ChoiceTextOptions{.stop = {"\n"}});
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/text/stop_matcher.h"
#include "common/text/streaming_detokenizer.h"
#include "coordinator/request/generation.h"

namespace paceline {

class Tokenizer;

struct ChoiceTextOptions {
  std::vector<std::string> stop;
  bool include_stop_string = false;  // also shows the text of a stop id that ended the choice
  bool skip_special_tokens = true;
};

class ChoiceText : public TextWatcher {
 public:
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, ChoiceTextOptions options);

  bool OnToken(TokenId id, bool searchable, bool hidden) override;
  std::string TakeText(bool finished) override;
  std::string stop_string() const override { return stop_string_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  const bool include_stop_string_;
  StreamingDetokenizer detokenizer_;
  StopMatcher stops_;
  std::string ready_;  // may be shown
  std::string stop_string_;
};

}  // namespace paceline
