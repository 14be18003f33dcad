#include "tests/support/tiny_tokenizer.h"

#include <fmt/core.h>

#include <array>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace paceline::testing {
namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

enum TokenType : int32_t { kNormal = 1, kControl = 3, kUnused = 5 };

std::string Utf8(uint32_t code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's alphabet: printable Latin-1 bytes stand for themselves, the others for U+0100 onwards, in byte
// order.
std::vector<std::string> ByteAlphabet() {
  std::vector<std::string> alphabet;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet.push_back(Utf8(printable ? byte : next++));
  }
  return alphabet;
}

}  // namespace

void AddTinyTokenizer(uint32_t vocab_size, GgufBuilder& builder) {
  CHECK_GE(vocab_size, 300u) << "the tiny tokenizer's tokens";
  // "Ġ" is the byte-level form of the space. Each merge's left and right side is a byte or an earlier merge.
  constexpr std::array<std::array<std::string_view, 2>, 16> kMerges = {{{"Ġ", "t"},
                                                                        {"h", "e"},
                                                                        {"Ġ", "a"},
                                                                        {"i", "n"},
                                                                        {"Ġt", "he"},
                                                                        {"e", "r"},
                                                                        {"o", "n"},
                                                                        {"Ġ", "s"},
                                                                        {"r", "e"},
                                                                        {"a", "t"},
                                                                        {"n", "d"},
                                                                        {"Ġ", "w"},
                                                                        {"in", "g"},
                                                                        {"Ġa", "nd"},
                                                                        {"o", "r"},
                                                                        {"l", "l"}}};
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(tokens.size(), kControl);
  for (const std::string& byte : ByteAlphabet()) tokens.push_back(byte);
  std::vector<std::string> merges;
  for (const auto& [left, right] : kMerges) {
    merges.push_back(fmt::format("{} {}", left, right));
    tokens.push_back(fmt::format("{}{}", left, right));
  }
  types.resize(tokens.size(), kNormal);
  while (tokens.size() < vocab_size) tokens.push_back(fmt::format("<unused_{}>", tokens.size()));
  types.resize(tokens.size(), kUnused);

  builder.AddString("tokenizer.ggml.model", "gpt2").AddString("tokenizer.ggml.pre", "gpt-2");
  builder.AddStrings("tokenizer.ggml.tokens", tokens).AddI32s("tokenizer.ggml.token_type", types);
  builder.AddStrings("tokenizer.ggml.merges", merges);
  builder.AddU32("tokenizer.ggml.bos_token_id", 1).AddU32("tokenizer.ggml.eos_token_id", 2);
  builder.AddBool("tokenizer.ggml.add_bos_token", false).AddBool("tokenizer.ggml.add_space_prefix", false);
  builder.AddString("tokenizer.chat_template", kChatMl);
}

}  // namespace paceline::testing
