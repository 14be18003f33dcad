#include "common/text/template/chat_template.h"

#include <nlohmann/json.hpp>

#include "common/text/template/content_format.h"
#include "common/text/template/interpreter.h"
#include "common/text/template/parser.h"
#include "common/text/template/unicode.h"

namespace paceline {
namespace {

constexpr size_t kSourceBytesMax = 1 << 20;  // the longest real one has 17 KB

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::unique_ptr<const jinja::Template> parsed, bool iterates)
    : source_(std::move(source)), parsed_(std::move(parsed)), iterates_over_content_(iterates) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

StatusOr<ChatTemplate> ChatTemplate::Parse(std::string source) {
  if (source.size() > kSourceBytesMax) {
    return InvalidArgumentError("chat template has {} bytes, the limit is {}", source.size(),
                                kSourceBytesMax);
  }
  if (!jinja::IsValidUtf8(source)) return InvalidArgumentError("chat template is not UTF-8");
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::ParseTemplate(source));
  const bool iterates = jinja::IteratesOverContent(parsed);
  return ChatTemplate(std::move(source), std::make_unique<const jinja::Template>(std::move(parsed)),
                      iterates);
}

StatusOr<std::string> ChatTemplate::Render(const nlohmann::ordered_json& context,
                                           const RenderLimits& limits) const {
  bool raised = false;
  return RenderAndReport(context, limits, raised);
}

StatusOr<std::string> ChatTemplate::RenderAndReport(const nlohmann::ordered_json& context,
                                                    const RenderLimits& limits, bool& raised) const {
  jinja::Runtime runtime(limits);
  StatusOr<std::string> text = jinja::Interpreter(*parsed_, runtime).Run(context);
  raised = runtime.raised;
  return text;
}

bool ChatTemplate::IteratesOverContent() const { return iterates_over_content_; }

Status CheckTemplate(const std::string& source, const RenderLimits& limits) {
  ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(source));
  nlohmann::ordered_json content = "Hi";
  if (chat.IteratesOverContent()) content = {{{"type", "text"}, {"text", "Hi"}}};
  const nlohmann::ordered_json context = {{"messages", {{{"role", "user"}, {"content", content}}}},
                                          {"tools", nullptr},
                                          {"add_generation_prompt", true},
                                          {"bos_token", "<s>"},
                                          {"eos_token", "</s>"}};
  bool raised = false;
  const StatusOr<std::string> text = chat.RenderAndReport(context, limits, raised);
  if (text.ok() || raised) return OkStatus();
  return text.status();
}

}  // namespace paceline
