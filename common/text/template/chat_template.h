// A model's chat template: messages in, prompt text out. A Jinja subset without any access to the host.
//
// The template comes with the model file and is outside input: Parse refuses what the engine does not have,
// by the name of the construct and its line; Render is bounded by RenderLimits whatever the template does.
//
//   ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Parse(source));
//   ASSIGN_OR_RETURN(std::string prompt, chat.Render({{"messages", messages}, {"add_generation_prompt",
//   true}}));
//
// Threading: Render is const and may run on any number of threads at once.
//
// Failure of Render:
//   INVALID_ARGUMENT    raise_exception() of the template, with its message and nothing else (HTTP 400); or
//   an
//                       operation that Python would refuse, prefixed by the template's line.
//   RESOURCE_EXHAUSTED  a limit; the message names which.
//   UNIMPLEMENTED       a construct that only shows at run time (string formatting with '%').
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "common/base/status.h"
#include "common/text/template/limits.h"

namespace paceline {

namespace jinja {
struct Template;
}

class ChatTemplate {
 public:
  static StatusOr<ChatTemplate> Parse(std::string source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // `context` is a JSON object with the variables of the template: messages, tools (null or absent without
  // any), add_generation_prompt, bos_token, eos_token and the request's chat_template_kwargs.
  StatusOr<std::string> Render(const nlohmann::ordered_json& context, const RenderLimits& limits = {}) const;

  // Whether the template treats a message's content as a list of parts; if not, the caller joins text parts.
  bool IteratesOverContent() const;

  const std::string& source() const { return source_; }

 private:
  friend Status CheckTemplate(const std::string& source, const RenderLimits& limits);
  ChatTemplate(std::string source, std::unique_ptr<const jinja::Template> parsed, bool iterates);
  // `raised` says whether an error is the template's own raise_exception().
  StatusOr<std::string> RenderAndReport(const nlohmann::ordered_json& context, const RenderLimits& limits,
                                        bool& raised) const;

  std::string source_;
  std::unique_ptr<const jinja::Template> parsed_;
  bool iterates_over_content_ = false;
};

// What a loader asks before it serves with a template: does it parse, and does a tiny chat render within the
// limits? A template that refuses the tiny chat by raise_exception (it wants a system turn, say) passes.
Status CheckTemplate(const std::string& source, const RenderLimits& limits = {});

}  // namespace paceline
