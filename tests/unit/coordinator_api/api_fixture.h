// ApiTest: a real ApiServer on loopback over a FakeEngine, with a tokenizer whose ids are bytes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "coordinator/api/api_server.h"
#include "tests/unit/coordinator_api/fake_engine.h"
#include "tests/unit/coordinator_api/http_client.h"

namespace paceline::testing {

// Ids 0..255 are bytes, kBos, kEos, kImStart, kImEnd the specials behind them. Adds BOS on request.
inline constexpr TokenId kBos = 256, kEos = 257, kImStart = 258, kImEnd = 259;
inline constexpr uint32_t kVocabSize = 260;
std::shared_ptr<const Tokenizer> ByteTokenizer(bool adds_bos = true);
std::shared_ptr<const ChatTemplate> TinyTemplate();

class ApiTest : public ::testing::Test {
 protected:
  ApiTest();

  void Start();  // with options_
  RawResponse Send(const std::string& request);
  RawResponse PostJson(std::string_view path, const nlohmann::json& body);
  RawResponse Complete(nlohmann::json fields);  // /v1/completions with prompt "p" unless given
  RawResponse Chat(nlohmann::json fields);      // one user message "hi" unless given
  static nlohmann::json Json(const RawResponse& response);
  // The JSON events of a stream, without [DONE].
  static std::vector<nlohmann::json> Chunks(const RawResponse& response);
  // Text of the deltas of choice `index`, joined.
  static std::string StreamedText(const std::vector<nlohmann::json>& chunks, int index = 0);
  static bool Eventually(const std::function<bool()>& condition, Duration at_most = 5s);
  void ExpectError(const RawResponse& response, int status, std::string_view code,
                   std::string_view param = "");

  FakeEngine engine_;
  ServerMetrics metrics_;
  ApiOptions options_;
  std::unique_ptr<ApiServer> api_;
};

}  // namespace paceline::testing
