#include "common/text/template/expression_parser.h"

#include <algorithm>

namespace paceline::jinja {

Status ExpressionParser::Fail(std::string_view what) const {
  return InvalidArgumentError("chat template line {}: {}", current().line, what);
}

Status ExpressionParser::FailUnsupported(std::string_view construct) const {
  return UnimplementedError("chat template line {}: {} is not supported", current().line, construct);
}

bool ExpressionParser::SkipOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Next();
  return true;
}

bool ExpressionParser::SkipName(std::string_view text) {
  if (!IsName(text)) return false;
  Next();
  return true;
}

Status ExpressionParser::ExpectOperator(std::string_view text) {
  if (SkipOperator(text)) return OkStatus();
  return Fail(fmt::format("expected '{}', found {}", text, Describe(current())));
}

Status ExpressionParser::ExpectName(std::string_view text) {
  if (SkipName(text)) return OkStatus();
  return Fail(fmt::format("expected '{}', found {}", text, Describe(current())));
}

Status ExpressionParser::Expect(TokenKind kind, std::string_view wanted) {
  if (current().kind != kind) return Fail(fmt::format("expected {}, found {}", wanted, Describe(current())));
  Next();
  return OkStatus();
}

StatusOr<std::string> ExpressionParser::ExpectIdentifier(std::string_view what) {
  if (current().kind != TokenKind::kName) {
    return Fail(fmt::format("expected {}, found {}", what, Describe(current())));
  }
  std::string name = current().text;
  Next();
  return name;
}

Status ExpressionParser::Adopt(Expr& parent, ExprPtr child) {
  if (child != nullptr) {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > kExpressionDepthMax) {
      return FailUnsupported(fmt::format("an expression nested deeper than {}", kExpressionDepthMax));
    }
  }
  parent.operands.push_back(std::move(child));
  return OkStatus();
}

StatusOr<ExprPtr> ExpressionParser::Node(ExprKind kind, uint32_t line, ExprPtr first, ExprPtr second,
                                         ExprPtr third) {
  ExprPtr node = NewNode(kind, line);
  RETURN_IF_ERROR(Adopt(*node, std::move(first)));
  if (second != nullptr) RETURN_IF_ERROR(Adopt(*node, std::move(second)));
  if (third != nullptr) RETURN_IF_ERROR(Adopt(*node, std::move(third)));
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseExpression(Conditional conditional) {
  DepthGuard guard(nesting_, kExpressionDepthMax);
  if (!guard.fits()) {
    return FailUnsupported(fmt::format("an expression nested deeper than {}", kExpressionDepthMax));
  }
  return conditional == Conditional::kAllowed ? ParseConditional() : ParseOr();
}

StatusOr<ExprPtr> ExpressionParser::ParseConditional() {
  ASSIGN_OR_RETURN(ExprPtr node, ParseOr());
  while (IsName("if")) {
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
    ExprPtr otherwise;
    if (SkipName("else")) {
      ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    ASSIGN_OR_RETURN(node, Node(ExprKind::kConditional, line, std::move(node), std::move(condition),
                                std::move(otherwise)));
  }
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseOr() {
  ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (IsName("or")) {
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    ASSIGN_OR_RETURN(left, Node(ExprKind::kOr, line, std::move(left), std::move(right)));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseAnd() {
  ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (IsName("and")) {
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    ASSIGN_OR_RETURN(left, Node(ExprKind::kAnd, line, std::move(left), std::move(right)));
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseNot() {
  std::vector<uint32_t> lines;
  for (; IsName("not"); Next()) lines.push_back(current().line);
  ASSIGN_OR_RETURN(ExprPtr node, ParseCompare());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    ASSIGN_OR_RETURN(node, Node(ExprKind::kNot, *line, std::move(node)));
  }
  return node;
}

bool ExpressionParser::ParseCompareOp(CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const auto& [text, value] : kOps) {
    if (SkipOperator(text)) {
      op = value;
      return true;
    }
  }
  if (SkipName("in")) {
    op = CompareOp::kIn;
    return true;
  }
  if (IsName("not") && ahead().kind == TokenKind::kName && ahead().text == "in") {
    Next();
    Next();
    op = CompareOp::kNotIn;
    return true;
  }
  return false;
}

StatusOr<ExprPtr> ExpressionParser::ParseCompare() {
  const uint32_t line = current().line;
  ASSIGN_OR_RETURN(ExprPtr first, ParseSum());
  CompareOp op;
  if (!ParseCompareOp(op)) return first;
  ASSIGN_OR_RETURN(ExprPtr node, Node(ExprKind::kCompare, line, std::move(first)));
  do {
    node->compare_ops.push_back(op);
    ASSIGN_OR_RETURN(ExprPtr next, ParseSum());
    RETURN_IF_ERROR(Adopt(*node, std::move(next)));
  } while (ParseCompareOp(op));
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseSum() {
  ASSIGN_OR_RETURN(ExprPtr left, ParseConcat());
  while (IsOperator("+") || IsOperator("-")) {
    const BinaryOp op = current().text == "+" ? BinaryOp::kAdd : BinaryOp::kSub;
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr right, ParseConcat());
    ASSIGN_OR_RETURN(left, Node(ExprKind::kBinary, line, std::move(left), std::move(right)));
    left->op = op;
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseConcat() {
  const uint32_t line = current().line;
  ASSIGN_OR_RETURN(ExprPtr first, ParseProduct());
  if (!IsOperator("~")) return first;
  ASSIGN_OR_RETURN(ExprPtr node, Node(ExprKind::kConcat, line, std::move(first)));
  while (SkipOperator("~")) {
    ASSIGN_OR_RETURN(ExprPtr next, ParseProduct());
    RETURN_IF_ERROR(Adopt(*node, std::move(next)));
  }
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseProduct() {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::kMul}, {"/", BinaryOp::kDiv}, {"//", BinaryOp::kFloorDiv}, {"%", BinaryOp::kMod}};
  ASSIGN_OR_RETURN(ExprPtr left, ParsePower());
  while (true) {
    const auto* found = std::find_if(std::begin(kOps), std::end(kOps),
                                     [&](const auto& entry) { return IsOperator(entry.first); });
    if (found == std::end(kOps)) return left;
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr right, ParsePower());
    ASSIGN_OR_RETURN(left, Node(ExprKind::kBinary, line, std::move(left), std::move(right)));
    left->op = found->second;
  }
}

StatusOr<ExprPtr> ExpressionParser::ParsePower() {
  ASSIGN_OR_RETURN(ExprPtr left, ParseUnary());
  while (IsOperator("**")) {
    const uint32_t line = current().line;
    Next();
    ASSIGN_OR_RETURN(ExprPtr right, ParseUnary());
    ASSIGN_OR_RETURN(left, Node(ExprKind::kBinary, line, std::move(left), std::move(right)));
    left->op = BinaryOp::kPow;
  }
  return left;
}

StatusOr<ExprPtr> ExpressionParser::ParseUnary(bool with_filter) {
  DepthGuard guard(nesting_, kExpressionDepthMax);
  if (!guard.fits()) {
    return FailUnsupported(fmt::format("an expression nested deeper than {}", kExpressionDepthMax));
  }
  const uint32_t line = current().line;
  ExprPtr node;
  if (IsOperator("-") || IsOperator("+")) {
    const ExprKind kind = current().text == "-" ? ExprKind::kNegate : ExprKind::kPlus;
    Next();
    ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(false));
    ASSIGN_OR_RETURN(node, Node(kind, line, std::move(operand)));
  } else {
    ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (!with_filter) return node;
  return ParseFilterExpression(std::move(node));
}

}  // namespace paceline::jinja
