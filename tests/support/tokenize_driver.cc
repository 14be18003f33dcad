// A filter around a tokenizer, for tests that compare with other implementations.
//
//   tokenize_driver MODEL < texts > ids
//
// MODEL is a GGUF file or a folder. Input: for each text a u32 length and its UTF-8 bytes. Output for each
// text: u32 count, the ids (i32, without BOS and EOS), u32 length and the bytes of the decoded text, special
// tokens kept. All little-endian. Special tokens are not looked for in the text.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/text/open_tokenizer.h"

namespace {

bool ReadExactly(void* out, size_t bytes) { return std::fread(out, 1, bytes, stdin) == bytes; }

void Write(const void* data, size_t bytes) { std::fwrite(data, 1, bytes, stdout); }

void WriteU32(size_t value) {
  const auto narrow = static_cast<uint32_t>(value);
  Write(&narrow, sizeof(narrow));
}

int Run(const paceline::Tokenizer& tokenizer) {
  uint32_t bytes = 0;
  while (ReadExactly(&bytes, sizeof(bytes))) {
    std::string text(bytes, '\0');
    if (!ReadExactly(text.data(), bytes)) {
      std::fprintf(stderr, "tokenize_driver: the input ends inside a text\n");
      return 2;
    }
    const auto ids = tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = false});
    if (!ids.ok()) {
      std::fprintf(stderr, "tokenize_driver: %s\n", ids.status().ToString().c_str());
      return 1;
    }
    WriteU32(ids->size());
    Write(ids->data(), ids->size() * sizeof(paceline::TokenId));
    const std::string decoded = tokenizer.Decode(*ids, {.skip_special_tokens = false});
    WriteU32(decoded.size());
    Write(decoded.data(), decoded.size());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenize_driver MODEL\n");
    return 2;
  }
  const auto text = paceline::OpenTokenizer(argv[1]);
  if (!text.ok()) {
    std::fprintf(stderr, "tokenize_driver: %s\n", text.status().ToString().c_str());
    return 1;
  }
  return Run(*text->tokenizer);
}
