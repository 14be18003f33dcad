// Turns the tokens of one sequence into text as they arrive, whole characters only.
//
// One per sequence, owned by whoever streams it, used by one thread at a time; the tokenizer outlives it. A
// token costs its own length, however long the text has become. A character that is split over tokens is held
// until it is whole; bytes that can no longer become a character show as U+FFFD.
//
// Promise: the pieces of Append and Flush, joined, are Tokenizer::Decode of the same ids with the same
// options.
//
//   StreamingDetokenizer stream(*tokenizer, {.at_text_start = false});   // a completion keeps the space in
//   front Show(stream.Append(id)); Show(stream.Flush());                                                // an
//   unfinished character as U+FFFD
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/protocol/types.h"
#include "common/text/decode_plan.h"

namespace paceline {

class Tokenizer;

struct DetokenizerOptions {
  bool skip_special_tokens = true;
  // The first token begins a text, so a space that only marks its start is dropped. False behind a prompt.
  bool at_text_start = false;
};

class StreamingDetokenizer {
 public:
  StreamingDetokenizer(const Tokenizer& tokenizer, DetokenizerOptions options);
  StreamingDetokenizer(const DecodePlan& plan, DetokenizerOptions options);

  // The text that can be shown now; may be empty. Ids outside the vocabulary add nothing.
  std::string Append(TokenId id);
  // What was held back. The next Append goes on as if the held bytes had not been there.
  std::string Flush();

 private:
  void Drain(bool at_end, std::string* out);
  void Emit(std::string_view character, std::string* out);

  const DecodePlan* plan_;
  DetokenizerOptions options_;
  bool first_;
  uint32_t strip_left_;
  std::string pending_;  // at most the start of one character between calls
};

}  // namespace paceline
