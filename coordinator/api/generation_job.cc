#include "coordinator/api/generation_job.h"

#include <sys/random.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/text/tokenizer.h"
#include "coordinator/request/choice_text.h"

namespace paceline {
namespace {

AnswerHead HeadOf(const PreparedRequest& request, const ApiOptions& options, const std::string& id) {
  const RequestParams& params = request.params;
  AnswerHead head;
  head.chat = request.chat;
  head.id = id;
  head.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  head.model = options.served_model_names.front();
  head.seed = params.seed ? static_cast<int64_t>(*params.seed) : DrawSeed();
  head.role = options.response_role;
  head.logprobs = params.sampling.logprobs >= 0;
  head.return_token_ids = params.return_token_ids;
  head.tokens_as_ids = params.tokens_as_ids;
  head.include_usage = params.include_usage;
  head.continuous_usage = params.continuous_usage;
  return head;
}

}  // namespace

int64_t DrawSeed() {
  uint64_t bits = 0;
  CHECK_EQ(::getrandom(&bits, sizeof(bits), 0), static_cast<ssize_t>(sizeof(bits))) << "entropy";
  return static_cast<int64_t>(bits >> 11);
}

GenerationJob::GenerationJob(JobServices services, PreparedRequest request, Origin origin,
                             std::function<void()> done)
    : services_(std::move(services)),
      request_(std::move(request)),
      origin_(std::move(origin)),
      done_(std::move(done)),
      writer_(HeadOf(request_, *services_.options, origin_.id), *services_.options->tokenizer) {}

void GenerationJob::Start() {
  const LogLevel level = services_.options->log_requests ? LogLevel::kInfo : LogLevel::kDebug;
  LogAt(level, "request", "id={} prompts={} n={} prompt_tokens={} seed={} stream={}", origin_.id,
        request_.prompts.size(), request_.params.n, UsageSoFar().num_prompt_tokens, writer_.head().seed,
        request_.params.stream);
  if (Status status = SubmitAll(); !status.ok()) {
    ApiError error = ErrorFromStatus(status);
    if (error.status == 429 || error.status == 503) services_.metrics->Rejected(error.code);
    return Fail(error);
  }
  for (const PreparedPrompt& prompt : request_.prompts) {
    services_.metrics->RequestAccepted(static_cast<uint32_t>(prompt.ids.size()), request_.params.n,
                                       prompt.max_tokens);
  }
  auto self = shared_from_this();
  origin_.exchange->OnGone([self] { self->OnGone(); });
  origin_.exchange->OnPressure([self](bool paused) {
    for (Choice& choice : self->choices_) {
      if (!choice.ended) self->services_.engine->SetPaused(choice.sequence, paused);
    }
  });
  if (!request_.params.stream) return;
  HttpResponse head;
  head.content_type = "text/event-stream";
  head.headers = origin_.headers;
  head.headers.emplace_back("cache-control", "no-cache");
  head.headers.emplace_back("x-accel-buffering", "no");
  stream_started_ = true;
  origin_.exchange->StartStream(std::move(head), services_.options->sse_ping_interval);
}

Status GenerationJob::SubmitAll() {
  choices_.reserve(request_.prompts.size() * request_.params.n);
  for (size_t prompt = 0; prompt < request_.prompts.size(); ++prompt) {
    for (uint32_t i = 0; i < request_.params.n; ++i) {
      const size_t index = choices_.size();
      Choice choice;
      choice.prompt = prompt;
      choice.part.index = static_cast<uint32_t>(index);  // prompt-major: prompt x n
      if (request_.params.return_token_ids) choice.part.prompt = &request_.prompts[prompt].ids;
      auto sink = [self = shared_from_this(), index, post = services_.post](GenerationDelta delta) {
        post([self, index, delta = std::move(delta)]() mutable { self->OnDelta(index, std::move(delta)); });
      };
      ASSIGN_OR_RETURN(choice.sequence, services_.engine->Submit(RequestOf(choice, i), std::move(sink)));
      choices_.push_back(std::move(choice));
      ++num_open_;
    }
  }
  return OkStatus();
}

GenerationRequest GenerationJob::RequestOf(const Choice& choice, uint32_t choice_index) const {
  const RequestParams& params = request_.params;
  GenerationRequest out;
  out.request_id = origin_.id;
  out.prompt = request_.prompts[choice.prompt].ids;
  out.sampling = params.sampling;
  out.sampling.seed = static_cast<uint64_t>(writer_.head().seed);
  out.sampling.choice = choice_index;
  out.sampling.max_tokens = request_.prompts[choice.prompt].max_tokens;
  out.sampling.min_tokens = std::min(out.sampling.min_tokens, out.sampling.max_tokens);
  ChoiceTextOptions text;
  text.stop = params.stop;
  text.include_stop_string = params.include_stop_str_in_output;
  text.skip_special_tokens = params.skip_special_tokens;
  out.text = std::make_shared<ChoiceText>(services_.options->tokenizer, std::move(text));
  return out;
}

void GenerationJob::OnDelta(size_t index, GenerationDelta delta) {
  if (closed_) return;
  Choice& choice = choices_[index];
  if (choice.ended) return;
  const bool first_tokens = choice.num_tokens == 0 && !delta.ids.empty();
  Count(choice, delta);
  ChoicePart& part = choice.part;
  part.text += delta.text;
  part.ids.insert(part.ids.end(), delta.ids.begin(), delta.ids.end());
  part.logprobs.insert(part.logprobs.end(), std::make_move_iterator(delta.logprobs.begin()),
                       std::make_move_iterator(delta.logprobs.end()));
  if (delta.finish == FinishReason::kError) {
    choice.ended = true;
    return Fail(ErrorFromStatus(delta.error));
  }
  if (delta.finish == FinishReason::kCancelled) {
    choice.ended = true;
    return Fail(ErrorFromStatus(UnavailableError("the server cancelled the request")));
  }
  part.finish = delta.finish;
  part.stop_token = delta.stop_token;
  part.stop_string = std::move(delta.stop_string);
  if (request_.params.stream) Stream(choice, first_tokens);
  if (delta.finish != FinishReason::kNone) EndChoice(choice);
}

void GenerationJob::Count(Choice& choice, const GenerationDelta& delta) {
  const Instant now = MonotonicNow();
  const uint32_t count = static_cast<uint32_t>(delta.ids.size());
  if (count > 0) {
    if (choice.num_tokens == 0) {
      choice.first_token = now;
      services_.metrics->FirstToken(ToSeconds(now - origin_.arrived));
    } else {
      services_.metrics->TokenGap(ToSeconds(now - choice.last_token), count);
    }
    choice.last_token = now;
  }
  choice.num_tokens += count;
  choice.num_drafted = delta.num_drafted;
  choice.num_accepted = delta.num_accepted;
  choice.num_cached = delta.num_cached_prompt;
}

// Whether ids without text are worth a chunk.
bool GenerationJob::tokens_shown() const {
  return writer_.head().logprobs || writer_.head().return_token_ids;
}

void GenerationJob::Stream(Choice& choice, bool first_tokens) {
  ChoicePart& part = choice.part;
  const bool ends = part.finish != FinishReason::kNone;
  const Usage usage = writer_.head().continuous_usage ? UsageSoFar() : Usage{};
  std::string opening;
  // The role goes out with the first token, in one write; a choice without any token still says it.
  if (writer_.head().chat && (first_tokens || (ends && choice.num_tokens == 0))) {
    opening = writer_.RoleEvent(part, usage);
    part.prompt = nullptr;
  }
  const bool enough = ends || first_tokens || part.ids.size() >= services_.options->stream_interval;
  const bool shows = !part.text.empty() || (tokens_shown() && !part.ids.empty());
  if (enough && shows) {
    origin_.exchange->Write(opening + writer_.ContentEvent(part, usage));
    part.text_offset += writer_.head().logprobs ? writer_.logprobs().NumCharacters(part.ids) : 0;
    part.text.clear();
    part.ids.clear();
    part.logprobs.clear();
    part.prompt = nullptr;
  } else if (!opening.empty()) {
    origin_.exchange->Write(std::move(opening));
  }
  if (ends) origin_.exchange->Write(writer_.FinishEvent(part, usage));
}

void GenerationJob::EndChoice(Choice& choice) {
  choice.ended = true;
  services_.metrics->ChoiceFinished(FinishReasonText(choice.part.finish),
                                    ToSeconds(choice.last_token - origin_.arrived),
                                    ToSeconds(choice.last_token - choice.first_token), choice.num_tokens);
  if (--num_open_ == 0) Complete();
}

void GenerationJob::Complete() {
  if (request_.params.stream) {
    if (writer_.head().include_usage) origin_.exchange->Write(writer_.UsageEvent(UsageSoFar()));
    origin_.exchange->Write(AnswerWriter::DoneEvent());
    origin_.exchange->Finish(false);
    return Close(200);
  }
  std::vector<ChoicePart> parts;
  for (Choice& choice : choices_) parts.push_back(std::move(choice.part));
  HttpResponse response;
  response.headers = origin_.headers;
  response.body = writer_.Plain(parts, UsageSoFar());
  origin_.exchange->Reply(std::move(response));
  Close(200);
}

void GenerationJob::Fail(const ApiError& error) {
  CancelOpen();
  if (stream_started_) {
    origin_.exchange->Write(writer_.ErrorEvent(error, UsageSoFar()));
    origin_.exchange->Finish(true);
  } else {
    HttpResponse response = ErrorResponse(error);
    response.headers.insert(response.headers.end(), origin_.headers.begin(), origin_.headers.end());
    origin_.exchange->Reply(std::move(response));
  }
  Close(error.status);
}

void GenerationJob::Abort(const Status& status) {
  if (!closed_) Fail(ErrorFromStatus(status));
}

void GenerationJob::OnGone() {
  if (closed_) return;
  CancelOpen();
  Close(499);
}

void GenerationJob::CancelOpen() {
  for (Choice& choice : choices_) {
    if (!choice.ended) services_.engine->Cancel(choice.sequence);
  }
}

void GenerationJob::Close(int status) {
  closed_ = true;
  const Usage usage = UsageSoFar();
  const Instant now = MonotonicNow();
  for (const Choice& choice : choices_) {
    if (status == 200) break;
    if (choice.ended && choice.part.finish != FinishReason::kNone) continue;  // counted when it ended
    services_.metrics->ChoiceFinished(status == 499 ? "abort" : "error", ToSeconds(now - origin_.arrived), 0,
                                      choice.num_tokens);
  }
  const LogLevel level = services_.options->log_requests ? LogLevel::kInfo : LogLevel::kDebug;
  LogAt(level, "request_done", "id={} status={} prompt_tokens={} completion_tokens={} ms={}", origin_.id,
        status, usage.num_prompt_tokens, usage.num_completion_tokens, ToMicros(now - origin_.arrived) / 1000);
  if (auto done = std::exchange(done_, nullptr)) done();
}

Usage GenerationJob::UsageSoFar() const {
  Usage usage;
  for (const PreparedPrompt& prompt : request_.prompts) {
    usage.num_prompt_tokens += static_cast<uint32_t>(prompt.ids.size());
  }
  uint32_t num_cached = 0;
  for (const Choice& choice : choices_) {
    usage.num_completion_tokens += choice.num_tokens;
    usage.num_accepted += choice.num_accepted;
    usage.num_rejected += choice.num_drafted - choice.num_accepted;
    num_cached += choice.num_cached;
  }
  if (services_.options->enable_prompt_tokens_details) usage.num_cached = num_cached;
  return usage;
}

}  // namespace paceline
