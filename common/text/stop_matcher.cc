#include "common/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

std::vector<uint32_t> Borders(std::string_view text) {
  std::vector<uint32_t> borders(text.size() + 1, 0);
  uint32_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = borders[border];
    if (text[i] == text[border]) ++border;
    borders[i + 1] = border;
  }
  return borders;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, StopOptions options) : options_(options) {
  for (size_t index = 0; index < stops.size(); ++index) {
    if (stops[index].empty()) continue;
    std::vector<uint32_t> borders = Borders(stops[index]);
    stops_.push_back({.text = std::move(stops[index]), .index = index, .failure = std::move(borders)});
  }
}

void StopMatcher::Advance(Stop* stop, char c) {
  while (stop->matched > 0 && stop->text[stop->matched] != c) stop->matched = stop->failure[stop->matched];
  if (stop->text[stop->matched] == c) ++stop->matched;
}

size_t StopMatcher::HeldBytes() const {
  if (options_.include_stop_string) return 0;  // whatever follows, this text stays
  size_t bytes = 0;
  for (const Stop& stop : stops_) bytes = std::max<size_t>(bytes, stop.matched);
  return bytes;
}

StopMatcher::Step StopMatcher::Feed(std::string_view text, uint64_t token_index) {
  Step step;
  if (done_) return step;
  if (token_index < options_.tokens_min) {
    step.text = std::string(text);
    return step;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    held_.push_back(text[i]);
    const Stop* found = nullptr;
    for (Stop& stop : stops_) {
      Advance(&stop, text[i]);
      if (stop.matched == stop.text.size() && found == nullptr) found = &stop;
    }
    if (found == nullptr) continue;
    done_ = true;
    const size_t cut = options_.include_stop_string ? 0 : found->text.size();
    step.text = held_.substr(0, held_.size() - cut);
    step.match = StopMatch{.stop = found->text, .stop_index = found->index, .token_index = token_index};
    held_.clear();
    return step;
  }
  const size_t keep = HeldBytes();
  step.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return step;
}

std::string StopMatcher::Finish() {
  done_ = true;
  return std::exchange(held_, std::string());
}

}  // namespace paceline
