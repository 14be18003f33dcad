#include "tests/unit/coordinator_api/fake_engine.h"

#include <algorithm>

namespace paceline::testing {

Script Says(std::string_view text, size_t run) {
  Script script;
  for (size_t at = 0; at < text.size(); at += run) {
    auto& ids = script.runs.emplace_back();
    for (char c : text.substr(at, run)) ids.push_back(static_cast<unsigned char>(c));
  }
  return script;
}

FakeEngine::FakeEngine() : script_([](const GenerationRequest&) { return Says("hello"); }) {
  thread_ = std::thread([this] { Run(); });
}

FakeEngine::~FakeEngine() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

StatusOr<SequenceId> FakeEngine::Submit(GenerationRequest request, GenerationSink sink) {
  std::lock_guard lock(mutex_);
  if (submit_error_ && submits_before_error_ == 0) return *submit_error_;
  if (submit_error_) --submits_before_error_;
  const SequenceId id(next_sequence_++);
  requests_.push_back(request);
  Sequence& sequence = open_[id];
  sequence.script = script_(request);
  sequence.next_at = MonotonicNow() + sequence.script.step_time;
  sequence.request = std::move(request);
  sequence.sink = std::move(sink);
  wake_.notify_all();
  return id;
}

void FakeEngine::Cancel(SequenceId id) {
  std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  ++num_cancelled_;
  GenerationDelta last;
  last.finish = FinishReason::kCancelled;
  it->second.sink(std::move(last));
  open_.erase(it);
}

void FakeEngine::SetPaused(SequenceId id, bool paused) {
  std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  it->second.paused = paused;
  num_pauses_ += paused ? 1 : 0;
  wake_.notify_all();
}

Status FakeEngine::Readiness() const {
  std::lock_guard lock(mutex_);
  return readiness_;
}

void FakeEngine::set_script(std::function<Script(const GenerationRequest&)> script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeEngine::set_submit_error(Status status, size_t after) {
  std::lock_guard lock(mutex_);
  submit_error_ = std::move(status);
  submits_before_error_ = after;
}

void FakeEngine::set_readiness(Status status) {
  std::lock_guard lock(mutex_);
  readiness_ = std::move(status);
}

void FakeEngine::Release() {
  std::lock_guard lock(mutex_);
  released_ = true;
  wake_.notify_all();
}

std::vector<GenerationRequest> FakeEngine::requests() const {
  std::lock_guard lock(mutex_);
  return requests_;
}

size_t FakeEngine::num_open() const {
  std::lock_guard lock(mutex_);
  return open_.size();
}

void FakeEngine::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Instant now = MonotonicNow();
    Instant next = now + 1h;
    for (auto it = open_.begin(); it != open_.end();) {
      Sequence& sequence = it->second;
      const bool rests = sequence.paused || (sequence.script.waits && !released_);
      bool ended = false;
      if (!rests && sequence.next_at <= now) {
        ended = Step(sequence);
        sequence.next_at = now + sequence.script.step_time;
      }
      if (!rests) next = std::min(next, sequence.next_at);
      it = ended ? open_.erase(it) : std::next(it);
    }
    if (next > MonotonicNow()) wake_.wait_until(lock, next);
  }
}

bool FakeEngine::Append(Sequence& sequence, TokenId id, GenerationDelta* delta) {
  const SamplingParams& sampling = sequence.request.sampling;
  const bool searchable = sequence.num_tokens >= sampling.min_tokens;
  ++sequence.num_tokens;
  delta->ids.push_back(id);
  if (sampling.logprobs >= 0) {
    TokenLogprobs entry;
    entry.logprob = -0.1f * static_cast<float>(1 + id % 7);
    for (int32_t i = 0; i < sampling.logprobs; ++i) {
      // The second best of each list is the drawn one.
      const float logprob = i == 1 ? entry.logprob : entry.logprob + 0.01f * static_cast<float>(1 - i);
      entry.top.emplace_back(i == 1 ? id : (id + 1 + i) % 128, logprob);
    }
    delta->logprobs.push_back(std::move(entry));
  }
  const bool stops =
      searchable && std::ranges::find(sampling.stop_token_ids, id) != sampling.stop_token_ids.end();
  const bool matched =
      sequence.request.text != nullptr && sequence.request.text->OnToken(id, searchable, stops);
  if (stops || matched) {
    delta->finish = FinishReason::kStop;
    const bool primary = !sampling.eos_token_ids.empty() && id == sampling.eos_token_ids.front();
    if (stops && !primary) delta->stop_token = id;
    if (matched) delta->stop_string = sequence.request.text->stop_string();
  } else if (sequence.num_tokens >= sampling.max_tokens) {
    delta->finish = FinishReason::kLength;
  }
  return delta->finish != FinishReason::kNone;
}

bool FakeEngine::Step(Sequence& sequence) {
  GenerationDelta delta;
  if (sequence.next_run < sequence.script.runs.size()) {
    const std::vector<TokenId>& run = sequence.script.runs[sequence.next_run++];
    ++sequence.num_steps;
    sequence.num_accepted += static_cast<uint32_t>(run.size()) - 1;
    for (TokenId id : run) {
      if (Append(sequence, id, &delta)) break;
    }
  } else if (sequence.script.breaks) {
    delta.finish = FinishReason::kError;
    delta.error = *sequence.script.breaks;
  } else {
    Append(sequence, sequence.request.sampling.eos_token_ids.front(), &delta);
  }
  const bool ended = delta.finish != FinishReason::kNone;
  if (sequence.request.text != nullptr) delta.text = sequence.request.text->TakeText(ended);
  delta.num_steps = sequence.num_steps;
  delta.num_drafted = sequence.num_accepted + sequence.num_steps;
  delta.num_accepted = sequence.num_accepted;
  sequence.sink(std::move(delta));
  return ended;
}

}  // namespace paceline::testing
