#include "common/text/template/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "common/text/template/string_literal.h"
#include "common/text/template/unicode.h"

namespace paceline::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  StatusOr<std::vector<Token>> Run() {
    while (pos_ < source_.size()) RETURN_IF_ERROR(LexData());
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Status Fail(std::string_view what) const {
    return InvalidArgumentError("chat template line {}: {}", line_, what);
  }

  bool At(std::string_view text) const { return source_.substr(pos_, text.size()) == text; }

  void Advance(size_t count) {
    const std::string_view passed = source_.substr(pos_, count);
    line_ += static_cast<uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
    pos_ += passed.size();
  }

  void Push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void SkipSpaces() {
    while (pos_ < source_.size()) {
      size_t next = pos_;
      if (!IsPythonSpace(DecodeNext(source_, next))) return;
      Advance(next - pos_);
    }
  }

  // Text up to the next tag, trimmed as the tag's sign and lstrip_blocks say, then the tag.
  Status LexData() {
    size_t tag = pos_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        tag = source_.size();
        break;
      }
      const char c = source_[tag + 1];
      if (c == '{' || c == '%' || c == '#') break;
      ++tag;
    }
    std::string_view data = source_.substr(pos_, tag - pos_);
    if (tag == source_.size()) {
      if (!data.empty()) Push(TokenKind::kData, std::string(data));
      Advance(data.size());
      return OkStatus();
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const std::string_view kept = TrimBeforeTag(data, kind, sign);
    if (!kept.empty()) Push(TokenKind::kData, std::string(kept));
    Advance(data.size() + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return LexComment();
    if (kind == '%' && AtWord("raw")) return LexRaw();
    return LexTag(kind == '{');
  }

  std::string_view TrimBeforeTag(std::string_view data, char kind, char sign) const {
    if (sign == '-') return StripRight(data, nullptr);
    if (sign == '+' || kind == '{') return data;
    const size_t newline = data.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_start == 0 && !line_starting_) return data;
    const std::string_view indent = data.substr(line_start);
    return StripLeft(indent, nullptr).empty() ? data.substr(0, line_start) : data;
  }

  bool AtWord(std::string_view word) const {
    size_t at = pos_;
    while (at < source_.size() && IsSpace(source_[at])) ++at;
    if (source_.substr(at, word.size()) != word) return false;
    at += word.size();
    while (at < source_.size() && IsSpace(source_[at])) ++at;
    return source_.substr(at, 2) == "%}" || source_.substr(at, 3) == "-%}";
  }

  // Behind a closing "%}" or "#}": `sign` is what stood before it.
  void TrimAfterTag(char sign) {
    line_starting_ = false;
    if (sign == '-') {
      const size_t before = pos_;
      SkipSpaces();
      line_starting_ = pos_ > before && source_[pos_ - 1] == '\n';
    } else if (sign != '+' && pos_ < source_.size() && source_[pos_] == '\n') {
      Advance(1);
      line_starting_ = true;
    }
  }

  Status LexComment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string_view::npos) return Fail("comment '{#' is not closed by '#}'");
    const char sign = end > pos_ ? source_[end - 1] : '\0';
    Advance(end + 2 - pos_);
    TrimAfterTag(sign);
    return OkStatus();
  }

  Status LexRaw() {
    SkipSpaces();
    Advance(3);
    SkipSpaces();
    const bool strip = At("-");
    Advance(strip ? 3 : 2);
    if (strip) SkipSpaces();
    for (size_t at = source_.find("{%", pos_); at != std::string_view::npos;
         at = source_.find("{%", at + 1)) {
      const char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
      size_t word = at + 2 + (sign == '-' || sign == '+' ? 1 : 0);
      while (word < source_.size() && IsSpace(source_[word])) ++word;
      if (source_.substr(word, 6) != "endraw") continue;
      word += 6;
      while (word < source_.size() && IsSpace(source_[word])) ++word;
      const char end_sign = word < source_.size() ? source_[word] : '\0';
      if (end_sign == '-' || end_sign == '+') ++word;
      if (source_.substr(word, 2) != "%}") continue;
      line_starting_ = false;
      const std::string_view kept = TrimBeforeTag(source_.substr(pos_, at - pos_), '%', sign);
      if (!kept.empty()) Push(TokenKind::kData, std::string(kept));
      Advance(word + 2 - pos_);
      TrimAfterTag(end_sign);
      return OkStatus();
    }
    return Fail("raw block is not closed by endraw");
  }

  Status LexTag(bool variable) {
    const std::string_view closing = variable ? "}}" : "%}";
    Push(variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    const uint32_t first_line = line_;
    while (true) {
      SkipSpaces();
      if (pos_ >= source_.size()) {
        return InvalidArgumentError("chat template line {}: tag is not closed by '{}'", first_line, closing);
      }
      if (brackets_.empty()) {
        char sign = '\0';
        if (source_[pos_] == '-' || (!variable && source_[pos_] == '+')) sign = source_[pos_];
        if (source_.substr(pos_ + (sign != '\0' ? 1 : 0), 2) == closing) {
          Push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
          Advance(sign != '\0' ? 3 : 2);
          CloseTag(variable, sign);
          return OkStatus();
        }
      }
      RETURN_IF_ERROR(LexToken());
    }
  }

  void CloseTag(bool variable, char sign) {
    if (!variable) {
      TrimAfterTag(sign);
      return;
    }
    line_starting_ = false;
    if (sign != '-') return;
    const size_t before = pos_;
    SkipSpaces();
    line_starting_ = pos_ > before && source_[pos_ - 1] == '\n';
  }

  Status LexToken() {
    const char c = source_[pos_];
    if (IsDigit(c)) return LexNumber();
    if (c == '\'' || c == '"') return LexString();
    if (IsNameStart(c)) {
      size_t end = pos_;
      while (end < source_.size() && IsNameChar(source_[end])) ++end;
      Push(TokenKind::kName, std::string(source_.substr(pos_, end - pos_)));
      Advance(end - pos_);
      return OkStatus();
    }
    return LexOperator();
  }

  Status LexString() {
    const char quote = source_[pos_];
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return Fail("string is not closed");
    StatusOr<std::string> text = DecodeStringLiteral(source_.substr(pos_ + 1, end - pos_ - 1));
    if (!text.ok()) return Fail(Message(text.status()));
    Push(TokenKind::kString, *std::move(text));
    Advance(end + 1 - pos_);
    return OkStatus();
  }

  Status LexNumber() {
    // After a dot ("items.0.1") digits are an index, never the start of a float.
    const bool after_dot = !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator &&
                           tokens_.back().text == "." && source_[pos_ - 1] == '.';
    size_t end = pos_;
    const auto digits = [&] {
      while (end < source_.size() && (IsDigit(source_[end]) || source_[end] == '_')) ++end;
    };
    const auto peek = [&](size_t at) { return at < source_.size() ? source_[at] : '\0'; };
    if (peek(pos_) == '0' && std::string_view("xXoObB").find(peek(pos_ + 1)) != std::string_view::npos &&
        peek(pos_ + 1) != '\0') {
      return LexRadixNumber();
    }
    digits();
    bool is_float = false;
    if (!after_dot && peek(end) == '.' && IsDigit(peek(end + 1))) {
      is_float = true;
      ++end;
      digits();
    }
    if (!after_dot && (peek(end) == 'e' || peek(end) == 'E')) {
      const size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
      if (IsDigit(peek(end + 1 + sign))) {
        is_float = true;
        end += 1 + sign;
        digits();
      }
    }
    std::string text(source_.substr(pos_, end - pos_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    return PushNumber(text, is_float, end);
  }

  Status PushNumber(const std::string& text, bool is_float, size_t end) {
    Token token;
    token.kind = is_float ? TokenKind::kFloat : TokenKind::kInteger;
    token.line = line_;
    token.text = text;
    const char* last = text.data() + text.size();
    const auto parsed = is_float ? std::from_chars(text.data(), last, token.number)
                                 : std::from_chars(text.data(), last, token.integer);
    if (parsed.ec != std::errc() || parsed.ptr != last) {
      return Fail(fmt::format("number '{}' does not fit 64 bits", text));
    }
    tokens_.push_back(std::move(token));
    Advance(end - pos_);
    return OkStatus();
  }

  Status LexRadixNumber() {
    const char letter = source_[pos_ + 1];
    const int base = letter == 'x' || letter == 'X' ? 16 : letter == 'o' || letter == 'O' ? 8 : 2;
    size_t end = pos_ + 2;
    while (end < source_.size() && (IsNameChar(source_[end]))) ++end;
    std::string text(source_.substr(pos_ + 2, end - pos_ - 2));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Token token;
    token.kind = TokenKind::kInteger;
    token.line = line_;
    token.text = text;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), token.integer, base);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
      return Fail(fmt::format("'{}' is not a number", source_.substr(pos_, end - pos_)));
    }
    tokens_.push_back(std::move(token));
    Advance(end - pos_);
    return OkStatus();
  }

  Status LexOperator() {
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                                      "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view op : kOperators) {
      if (!At(op)) continue;
      RETURN_IF_ERROR(TrackBracket(op[0]));
      Push(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return OkStatus();
    }
    size_t next = pos_;
    DecodeNext(source_, next);
    return Fail(fmt::format("unexpected character '{}'", source_.substr(pos_, next - pos_)));
  }

  Status TrackBracket(char c) {
    if (c == '(') brackets_.push_back(')');
    if (c == '[') brackets_.push_back(']');
    if (c == '{') brackets_.push_back('}');
    if (c != ')' && c != ']' && c != '}') return OkStatus();
    if (brackets_.empty()) return Fail(fmt::format("unexpected '{}'", c));
    if (brackets_.back() != c)
      return Fail(fmt::format("unexpected '{}', expected '{}'", c, brackets_.back()));
    brackets_.pop_back();
    return OkStatus();
  }

  std::string_view source_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // what was consumed last ended in a newline
  std::vector<char> brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  const std::string normalized = NormalizeNewlines(source);
  return Lexer(normalized).Run();
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace paceline::jinja
