#include "tests/unit/coordinator_api/api_fixture.h"

#include <thread>

#include "common/base/check.h"
#include "common/text/byte_alphabet.h"
#include "common/text/template/chat_template.h"
#include "common/text/tokenizer.h"
#include "common/text/unicode.h"

namespace paceline::testing {

using nlohmann::json;

std::shared_ptr<const Tokenizer> ByteTokenizer(bool adds_bos) {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    AppendUtf8(AlphabetOfByte(static_cast<uint8_t>(byte)), &text);
    spec.tokens.push_back(text);
    spec.types.push_back(TokenType::kNormal);
  }
  for (const char* special : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    AddedToken added;
    added.id = static_cast<TokenId>(spec.tokens.size());
    added.content = special;
    added.special = true;
    spec.added_tokens.push_back(added);
    spec.tokens.emplace_back(special);
    spec.types.push_back(TokenType::kControl);
  }
  PreTokenizerStep pre;
  pre.kind = PreTokenizerStep::Kind::kByteLevel;
  spec.pre_tokenizer.push_back(pre);
  DecoderStep decode;
  decode.kind = DecoderStep::Kind::kByteLevel;
  spec.decoder.push_back(decode);
  spec.bos = kBos;
  spec.eos = kEos;
  if (adds_bos) spec.prefix = {kBos};
  auto tokenizer = Tokenizer::Create(std::move(spec));
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

std::shared_ptr<const ChatTemplate> TinyTemplate() {
  auto parsed = ChatTemplate::Parse(
      "{% for m in messages %}{% if m.role == 'forbidden' %}{{ raise_exception('no such role here') }}{% "
      "endif %}"
      "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if loud %}LOUD{% endif %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  CHECK(parsed.ok()) << parsed.status();
  return std::make_shared<const ChatTemplate>(*std::move(parsed));
}

ApiTest::ApiTest()
    : metrics_({.model_name = "tiny", .max_model_len = 200, .version = "1", .build = "b", .protocol = "1"}) {
  options_.port = 0;
  options_.served_model_names = {"tiny", "org/alias"};
  options_.model_root = "/models/tiny.gguf";
  options_.max_model_len = 200;
  options_.tokenizer = ByteTokenizer();
  options_.chat_template = TinyTemplate();
  options_.bos_token = "<s>";
  options_.eos_token = "</s>";
  options_.eos_token_ids = {kEos, kImEnd};
}

void ApiTest::Start() {
  auto api = ApiServer::Start(options_, &engine_, &metrics_);
  ASSERT_TRUE(api.ok()) << api.status();
  api_ = *std::move(api);
}

RawResponse ApiTest::Send(const std::string& request) {
  if (api_ == nullptr) Start();
  if (api_ == nullptr) return {};
  RawClient client(api_->port());
  client.TrySend(request);
  return client.Read(20s);
}

RawResponse ApiTest::PostJson(std::string_view path, const json& body) {
  return Send(Post(path, body.dump()));
}

RawResponse ApiTest::Complete(json fields) {
  if (!fields.contains("prompt")) fields["prompt"] = "p";
  return PostJson("/v1/completions", fields);
}

RawResponse ApiTest::Chat(json fields) {
  if (!fields.contains("messages")) fields["messages"] = {{{"role", "user"}, {"content", "hi"}}};
  return PostJson("/v1/chat/completions", fields);
}

json ApiTest::Json(const RawResponse& response) {
  json body = json::parse(response.body, nullptr, false);
  EXPECT_FALSE(body.is_discarded()) << "not JSON: " << response.body;
  return body;
}

std::vector<json> ApiTest::Chunks(const RawResponse& response) {
  std::vector<json> out;
  for (const std::string& event : response.Events()) {
    if (event == "[DONE]") continue;
    out.push_back(json::parse(event, nullptr, false));
    EXPECT_FALSE(out.back().is_discarded()) << event;
  }
  return out;
}

std::string ApiTest::StreamedText(const std::vector<json>& chunks, int index) {
  std::string text;
  for (const json& chunk : chunks) {
    for (const json& choice : chunk.value("choices", json::array())) {
      if (choice["index"] != index) continue;
      text += choice.contains("delta") ? choice["delta"].value("content", "") : choice.value("text", "");
    }
  }
  return text;
}

bool ApiTest::Eventually(const std::function<bool()>& condition, Duration at_most) {
  const Instant deadline = MonotonicNow() + at_most;
  while (!condition() && MonotonicNow() < deadline) std::this_thread::sleep_for(2ms);
  return condition();
}

void ApiTest::ExpectError(const RawResponse& response, int status, std::string_view code,
                          std::string_view param) {
  EXPECT_EQ(response.status, status) << response.body;
  ASSERT_EQ(response.headers.count("content-type"), 1u);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  const json body = Json(response);
  ASSERT_TRUE(body.contains("error")) << response.body;
  const json& error = body["error"];
  EXPECT_TRUE(error["message"].is_string());
  EXPECT_TRUE(error["type"].is_string());
  EXPECT_EQ(error["code"], std::string(code)) << response.body;
  if (!param.empty()) {
    EXPECT_EQ(error["param"], std::string(param)) << response.body;
  }
}

}  // namespace paceline::testing
