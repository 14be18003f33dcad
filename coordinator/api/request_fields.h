// FieldReader: typed reading of a body that CheckFields has passed. Internal to openai_request.cc and
// chat_input.cc.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/api/openai_request.h"

namespace paceline {

// Object, known fields of the right kind and range, model served. Null counts as absent.
MaybeError CheckFields(const nlohmann::ordered_json& body, ApiRoute route, const ApiOptions& options);

// The value as an integer: 3, 3.0; not 3.5, not beyond int64.
std::optional<int64_t> AsInteger(const nlohmann::ordered_json& value);

// A token id in the vocabulary.
std::optional<TokenId> AsTokenId(const nlohmann::ordered_json& value, uint32_t vocab_size);
uint32_t VocabSize(const ApiOptions& options);

class FieldReader {
 public:
  explicit FieldReader(const nlohmann::ordered_json& body) : body_(body) {}

  // Nullptr when absent or null.
  const nlohmann::ordered_json* Find(std::string_view name) const {
    const auto it = body_.find(name);
    return it == body_.end() || it->is_null() ? nullptr : &*it;
  }
  std::optional<int64_t> Int(std::string_view name) const {
    const auto* value = Find(name);
    return value == nullptr ? std::nullopt : AsInteger(*value);
  }
  std::optional<float> Number(std::string_view name) const {
    const auto* value = Find(name);
    return value == nullptr ? std::nullopt : std::optional<float>(value->get<float>());
  }
  bool Bool(std::string_view name, bool otherwise) const {
    const auto* value = Find(name);
    return value == nullptr ? otherwise : value->get<bool>();
  }

 private:
  const nlohmann::ordered_json& body_;
};

// Messages and template variables of a body (chat_input.cc).
MaybeError ParseChatInput(const FieldReader& fields, const ApiOptions& options, ChatInput* out);

}  // namespace paceline
