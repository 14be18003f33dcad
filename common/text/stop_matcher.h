// Finds stop strings in a text that arrives in pieces, and holds back what may become one.
//
// One per sequence, fed with what the streaming detokenizer gives, by one thread. The match that completes
// earliest in the text wins (of several that complete at the same byte, the first in the list), so tokens
// that arrive many at a time end where they would have ended one by one. Held back is the longest end of the
// text that begins a stop string, no more: text that can be shown is shown at once. Cost is linear in text
// times number of stop strings.
//
//   StopMatcher stops({"\nUser:"}, {});
//   StopMatcher::Step step = stops.Feed("Hi\nUs", token_index);   // text "Hi", held "\nUs"
//   if (step.match) Finish(step.match->stop, step.match->token_index);
//   std::string rest = stops.Finish();                          // at another end: what was held back
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct StopOptions {
  bool include_stop_string = false;  // the text ends behind the stop string instead of in front of it
  uint64_t tokens_min = 0;           // text of the tokens before this index is not searched
};

struct StopMatch {
  std::string stop = {};
  size_t stop_index = 0;  // in the list
  uint64_t token_index =
      0;  // of the token whose text completed it: ids, logprobs and usage end with this one
};

class StopMatcher {
 public:
  struct Step {
    std::string text;  // what may be shown now
    std::optional<StopMatch> match;
  };

  // Empty stop strings are left out.
  StopMatcher(std::vector<std::string> stops, StopOptions options);

  // `text` is the valid UTF-8 that token `token_index` (counted from 0 in the output) made visible; may be
  // empty. After a match everything is dropped.
  Step Feed(std::string_view text, uint64_t token_index);
  // The text that was held back; empty after a match.
  std::string Finish();

 private:
  struct Stop {
    std::string text = {};
    size_t index = 0;                    // in the caller's list
    std::vector<uint32_t> failure = {};  // longest proper border of each prefix (Knuth, Morris, Pratt)
    uint32_t matched = 0;                // bytes of `text` that the end of the output equals
  };
  static void Advance(Stop* stop, char c);
  size_t HeldBytes() const;

  std::vector<Stop> stops_;
  StopOptions options_;
  std::string held_;
  bool done_ = false;
};

}  // namespace paceline
