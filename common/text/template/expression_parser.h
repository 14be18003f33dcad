// The expression half of the parser, with Jinja's precedence: or, and, not, comparison, + -, ~, * / // %, **,
// unary, then calls, subscripts, filters and tests.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/template/ast.h"
#include "common/text/template/lexer.h"

namespace paceline::jinja {

// Names that a macro body mentions and that change how the macro is called.
struct SpecialNames {
  bool caller = false;
  bool varargs = false;
  bool kwargs = false;
};

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, SymbolTable& symbols)
      : tokens_(std::move(tokens)), symbols_(symbols) {}

  enum class Conditional : uint8_t { kAllowed, kNotAllowed };

  StatusOr<ExprPtr> ParseExpression(Conditional conditional = Conditional::kAllowed);
  // One expression, or several with commas between, which make a tuple. `end_name` also ends it.
  StatusOr<ExprPtr> ParseTuple(Conditional conditional, std::string_view end_name = "");
  // Names, tuples of names, and namespace attributes if `with_namespace`.
  StatusOr<ExprPtr> ParseTarget(bool with_namespace, std::string_view end_name = "");
  // One or more filters applied to `input` (null in a filter block); at least one if `first_is_named`, which
  // then starts without a pipe.
  StatusOr<ExprPtr> ParseFilters(ExprPtr input, bool first_is_named);

  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  void Next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }
  bool IsOperator(std::string_view text) const {
    return current().kind == TokenKind::kOperator && current().text == text;
  }
  bool IsName(std::string_view text) const {
    return current().kind == TokenKind::kName && current().text == text;
  }
  bool SkipOperator(std::string_view text);
  bool SkipName(std::string_view text);
  Status ExpectOperator(std::string_view text);
  Status ExpectName(std::string_view text);
  Status Expect(TokenKind kind, std::string_view wanted);
  StatusOr<std::string> ExpectIdentifier(std::string_view what);
  Status Fail(std::string_view what) const;
  Status FailUnsupported(std::string_view construct) const;

  SpecialNames special_names;

 private:
  // Real templates stay below 40; the tree's depth is native stack when it is evaluated and destroyed.
  static constexpr uint32_t kExpressionDepthMax = 200;

  static ExprPtr NewNode(ExprKind kind, uint32_t line) { return std::make_unique<Expr>(kind, line); }
  StatusOr<ExprPtr> Node(ExprKind kind, uint32_t line, ExprPtr first, ExprPtr second = nullptr,
                         ExprPtr third = nullptr);
  Status Adopt(Expr& parent, ExprPtr child);
  StatusOr<ExprPtr> ParseConditional();
  StatusOr<ExprPtr> ParseOr();
  StatusOr<ExprPtr> ParseAnd();
  StatusOr<ExprPtr> ParseNot();
  StatusOr<ExprPtr> ParseCompare();
  bool ParseCompareOp(CompareOp& op);
  StatusOr<ExprPtr> ParseSum();
  StatusOr<ExprPtr> ParseConcat();
  StatusOr<ExprPtr> ParseProduct();
  StatusOr<ExprPtr> ParsePower();
  StatusOr<ExprPtr> ParseUnary(bool with_filter = true);
  StatusOr<ExprPtr> ParsePrimary();
  StatusOr<ExprPtr> ParseName();
  StatusOr<ExprPtr> ParseString();
  StatusOr<ExprPtr> ParseParentheses();
  StatusOr<ExprPtr> ParseList();
  StatusOr<ExprPtr> ParseDict();
  StatusOr<ExprPtr> ParsePostfix(ExprPtr node);
  StatusOr<ExprPtr> ParseFilterExpression(ExprPtr node);
  StatusOr<ExprPtr> ParseSubscript(ExprPtr node);
  StatusOr<ExprPtr> ParseItem(ExprPtr node, uint32_t line);
  StatusOr<ExprPtr> ParseTest(ExprPtr node);
  Status ParseArguments(Expr& call);
  Status ParseArgument(Expr& call);
  Status CheckAttributeName(std::string_view name) const;
  bool AtTupleEnd(std::string_view end_name) const;

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  SymbolTable& symbols_;
  uint32_t nesting_ = 0;
};

}  // namespace paceline::jinja
