// Template source to tokens, with Jinja's white space rules applied: trim_blocks, lstrip_blocks, the -, +
// signs of tags, one trailing newline dropped, \r\n and \r read as \n.
//
//   Tokenize("{% if x -%} y")  ->  block_begin, name if, name x, block_end, data "y", end
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace paceline::jinja {

enum class TokenKind : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,  // text is the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 1;
  std::string text;  // data, name, decoded string, operator
  int64_t integer = 0;
  double number = 0;
};

StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// What an error message calls the token.
std::string Describe(const Token& token);

}  // namespace paceline::jinja
