// The conversation of a request: messages checked and brought to the shape that the template reads.

#include "common/text/template/chat_template.h"
#include "coordinator/api/request_fields.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

// The text parts of a content list, as values that have {type: text, text}. Other kinds are refused.
MaybeError CheckParts(const ordered_json& parts, size_t index) {
  for (const ordered_json& part : parts) {
    if (part.is_string()) continue;
    const auto type = part.is_object() ? part.find("type") : part.end();
    if (!part.is_object() || type == part.end() || !type->is_string()) {
      return ApiError::Invalid("messages", "messages[{}].content has a part without a type", index);
    }
    if (*type != "text") {
      return ApiError::Unsupported("messages", "messages[{}].content has a part of another type than text",
                                   index);
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) {
      return ApiError::Invalid("messages", "messages[{}].content has a text part without text", index);
    }
  }
  return std::nullopt;
}

std::string PartText(const ordered_json& part) {
  return part.is_string() ? part.get<std::string>() : part["text"].get<std::string>();
}

// Templates expect either one string or a list of parts; clients send either.
void ShapeContent(bool as_parts, ordered_json* content) {
  if (as_parts && content->is_string()) {
    *content = ordered_json::array({{{"type", "text"}, {"text", *content}}});
  } else if (as_parts && content->is_array()) {
    for (ordered_json& part : *content) part = {{"type", "text"}, {"text", PartText(part)}};
  } else if (content->is_array()) {
    std::string joined;
    for (size_t i = 0; i < content->size(); ++i) {
      if (i > 0) joined += '\n';
      joined += PartText((*content)[i]);
    }
    *content = joined;
  }
}

MaybeError ShapeMessage(size_t index, bool as_parts, ordered_json* message) {
  if (!message->is_object()) {
    return ApiError::Invalid("messages", "messages[{}] must be an object, found {}", index,
                             message->type_name());
  }
  const auto role = message->find("role");
  if (role == message->end() || !role->is_string() || role->get_ref<const std::string&>().empty()) {
    return ApiError::Invalid("messages", "messages[{}].role must be a string", index);
  }
  auto content = message->find("content");
  if (content == message->end() || content->is_null()) {
    if (*role != "assistant") return ApiError::Invalid("messages", "messages[{}].content is missing", index);
    if (message->contains("tool_calls")) return std::nullopt;  // templates ask for null there
    (*message)["content"] = "";
    return std::nullopt;
  }
  if (!content->is_string() && !content->is_array()) {
    return ApiError::Invalid("messages", "messages[{}].content must be a string or a list of parts, found {}",
                             index, content->type_name());
  }
  if (content->is_array()) {
    if (MaybeError error = CheckParts(*content, index)) return error;
  }
  ShapeContent(as_parts, &*content);
  return std::nullopt;
}

// The server's defaults, then the request's: the later wins.
ordered_json TemplateVariables(const FieldReader& fields, const ApiOptions& options) {
  ordered_json out = ordered_json::object();
  if (!options.default_chat_template_kwargs.empty()) {
    out = ordered_json::parse(options.default_chat_template_kwargs);  // checked at start
  }
  if (const ordered_json* kwargs = fields.Find("chat_template_kwargs")) {
    for (const auto& [name, value] : kwargs->items()) out[name] = value;
  }
  return out;
}

}  // namespace

MaybeError ParseChatInput(const FieldReader& fields, const ApiOptions& options, ChatInput* out) {
  if (options.chat_template == nullptr) {
    return ApiError::Unsupported(
        "messages", "chat needs a chat template, and {}; start with --chat-template",
        options.chat_template_missing.empty() ? "this model has none" : options.chat_template_missing);
  }
  const ordered_json* messages = fields.Find("messages");
  if (messages == nullptr || messages->empty()) {
    return ApiError::Invalid("messages", "messages must be a list of at least one message");
  }
  const bool as_parts =
      options.content_format == ContentFormat::kOpenai ||
      (options.content_format == ContentFormat::kAuto && options.chat_template->IteratesOverContent());
  out->messages = std::make_shared<ordered_json>(*messages);
  for (size_t i = 0; i < out->messages->size(); ++i) {
    if (MaybeError error = ShapeMessage(i, as_parts, &(*out->messages)[i])) return error;
  }
  out->kwargs = std::make_shared<ordered_json>(TemplateVariables(fields, options));
  for (std::string_view name : {"messages", "tools", "add_generation_prompt"}) {
    if (out->kwargs->contains(name)) {
      return ApiError::Invalid("chat_template_kwargs", "chat_template_kwargs must not set {}", name);
    }
  }
  out->add_generation_prompt = fields.Bool("add_generation_prompt", true);
  return std::nullopt;
}

}  // namespace paceline
