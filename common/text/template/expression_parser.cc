#include "common/text/template/expression_parser.h"

#include <algorithm>

namespace paceline::jinja {
namespace {

// Real templates stay below 40; the tree's depth is native stack when it is evaluated and destroyed.
constexpr uint32_t kExpressionDepthMax = 200;

ExprPtr Make(ExprKind kind, uint32_t line) { return std::make_unique<Expr>(kind, line); }

}  // namespace

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
  ExprPtr node = Make(kind, line);
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

StatusOr<ExprPtr> ExpressionParser::ParsePrimary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseString();
    case TokenKind::kInteger: {
      ExprPtr node = Make(ExprKind::kInteger, token.line);
      node->integer = token.integer;
      Next();
      return node;
    }
    case TokenKind::kFloat: {
      ExprPtr node = Make(ExprKind::kFloat, token.line);
      node->number = token.number;
      Next();
      return node;
    }
    default:
      if (IsOperator("(")) return ParseParentheses();
      if (IsOperator("[")) return ParseList();
      if (IsOperator("{")) return ParseDict();
      return Fail(fmt::format("expected an expression, found {}", Describe(token)));
  }
}

StatusOr<ExprPtr> ExpressionParser::ParseName() {
  const Token token = current();
  Next();
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    ExprPtr node = Make(ExprKind::kBool, token.line);
    node->integer = token.text == "true" || token.text == "True" ? 1 : 0;
    return node;
  }
  if (token.text == "none" || token.text == "None") return Make(ExprKind::kNone, token.line);
  special_names.caller |= token.text == "caller";
  special_names.varargs |= token.text == "varargs";
  special_names.kwargs |= token.text == "kwargs";
  ExprPtr node = Make(ExprKind::kName, token.line);
  node->text = token.text;
  node->symbol = symbols_.Intern(token.text);
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseString() {
  ExprPtr node = Make(ExprKind::kString, current().line);
  for (; current().kind == TokenKind::kString; Next()) node->text += current().text;
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseParentheses() {
  const uint32_t line = current().line;
  Next();
  if (SkipOperator(")")) return Make(ExprKind::kTuple, line);
  ASSIGN_OR_RETURN(ExprPtr node, ParseTuple(Conditional::kAllowed));
  RETURN_IF_ERROR(ExpectOperator(")"));
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseList() {
  ExprPtr node = Make(ExprKind::kList, current().line);
  Next();
  while (!IsOperator("]")) {
    if (!node->operands.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (IsOperator("]")) break;
    }
    ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    RETURN_IF_ERROR(Adopt(*node, std::move(item)));
  }
  Next();
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseDict() {
  ExprPtr node = Make(ExprKind::kDict, current().line);
  Next();
  while (!IsOperator("}")) {
    if (!node->operands.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (IsOperator("}")) break;
    }
    ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    RETURN_IF_ERROR(ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    RETURN_IF_ERROR(Adopt(*node, std::move(key)));
    RETURN_IF_ERROR(Adopt(*node, std::move(value)));
  }
  Next();
  return node;
}

bool ExpressionParser::AtTupleEnd(std::string_view end_name) const {
  return current().kind == TokenKind::kVariableEnd || current().kind == TokenKind::kBlockEnd ||
         IsOperator(")") || (!end_name.empty() && IsName(end_name));
}

StatusOr<ExprPtr> ExpressionParser::ParseTuple(Conditional conditional, std::string_view end_name) {
  const uint32_t line = current().line;
  ASSIGN_OR_RETURN(ExprPtr first, ParseExpression(conditional));
  if (!IsOperator(",")) return first;
  ASSIGN_OR_RETURN(ExprPtr tuple, Node(ExprKind::kTuple, line, std::move(first)));
  while (SkipOperator(",")) {
    if (AtTupleEnd(end_name)) break;
    ASSIGN_OR_RETURN(ExprPtr item, ParseExpression(conditional));
    RETURN_IF_ERROR(Adopt(*tuple, std::move(item)));
  }
  return tuple;
}

StatusOr<ExprPtr> ExpressionParser::ParseTarget(bool with_namespace, std::string_view end_name) {
  const auto one = [&]() -> StatusOr<ExprPtr> {
    if (IsOperator("(")) {
      Next();
      ASSIGN_OR_RETURN(ExprPtr inner, ParseTarget(with_namespace, end_name));
      RETURN_IF_ERROR(ExpectOperator(")"));
      return inner;
    }
    const uint32_t line = current().line;
    ASSIGN_OR_RETURN(std::string name, ExpectIdentifier("a name to assign to"));
    ExprPtr target = Make(ExprKind::kName, line);
    target->symbol = symbols_.Intern(name);
    target->text = std::move(name);
    if (!with_namespace || !SkipOperator(".")) return target;
    ASSIGN_OR_RETURN(std::string attribute, ExpectIdentifier("an attribute name"));
    RETURN_IF_ERROR(CheckAttributeName(attribute));
    target->kind = ExprKind::kAttribute;
    target->text = std::move(attribute);
    return target;
  };
  DepthGuard guard(nesting_, kExpressionDepthMax);
  if (!guard.fits()) return FailUnsupported("an assignment target nested that deeply");
  const uint32_t line = current().line;
  ASSIGN_OR_RETURN(ExprPtr first, one());
  if (!IsOperator(",")) return first;
  ASSIGN_OR_RETURN(ExprPtr tuple, Node(ExprKind::kTuple, line, std::move(first)));
  while (SkipOperator(",")) {
    if (AtTupleEnd(end_name) || IsOperator("=")) break;
    ASSIGN_OR_RETURN(ExprPtr item, one());
    RETURN_IF_ERROR(Adopt(*tuple, std::move(item)));
  }
  return tuple;
}

StatusOr<ExprPtr> ExpressionParser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (IsOperator("(")) {
      ASSIGN_OR_RETURN(node, Node(ExprKind::kCall, current().line, std::move(node)));
      RETURN_IF_ERROR(ParseArguments(*node));
    } else {
      return node;
    }
  }
}

StatusOr<ExprPtr> ExpressionParser::ParseFilterExpression(ExprPtr node) {
  while (true) {
    if (IsOperator("|")) {
      ASSIGN_OR_RETURN(node, ParseFilters(std::move(node), false));
    } else if (IsName("is")) {
      ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (IsOperator("(")) {
      ASSIGN_OR_RETURN(node, Node(ExprKind::kCall, current().line, std::move(node)));
      RETURN_IF_ERROR(ParseArguments(*node));
    } else {
      return node;
    }
  }
}

// B124: names that only exist to reach Python's object internals. No lookup here could find any, but a
// template that asks for them is hostile and its model should not be served with it.
Status ExpressionParser::CheckAttributeName(std::string_view name) const {
  if (name.substr(0, 2) != "__") return OkStatus();
  return FailUnsupported(fmt::format("access to object internals ('{}')", name));
}

StatusOr<ExprPtr> ExpressionParser::ParseSubscript(ExprPtr node) {
  const uint32_t line = current().line;
  if (SkipOperator("[")) return ParseItem(std::move(node), line);
  Next();
  if (current().kind == TokenKind::kInteger) {
    ExprPtr index = Make(ExprKind::kInteger, line);
    index->integer = current().integer;
    Next();
    return Node(ExprKind::kItem, line, std::move(node), std::move(index));
  }
  ASSIGN_OR_RETURN(std::string name, ExpectIdentifier("an attribute name"));
  RETURN_IF_ERROR(CheckAttributeName(name));
  ASSIGN_OR_RETURN(ExprPtr attribute, Node(ExprKind::kAttribute, line, std::move(node)));
  attribute->text = std::move(name);
  return attribute;
}

StatusOr<ExprPtr> ExpressionParser::ParseItem(ExprPtr node, uint32_t line) {
  ExprPtr bounds[3];
  size_t colons = 0;
  while (!IsOperator("]")) {
    if (IsOperator(",")) return FailUnsupported("a subscript with several indices");
    if (IsOperator(":")) {
      if (++colons > 2) return Fail("a slice has at most two colons");
      Next();
      continue;
    }
    if (bounds[colons] != nullptr) return ExpectOperator("]");
    ASSIGN_OR_RETURN(bounds[colons], ParseExpression());
  }
  Next();
  if (colons == 0) {
    if (bounds[0] == nullptr) return Fail("expected an index between '[' and ']'");
    if (bounds[0]->kind == ExprKind::kString) RETURN_IF_ERROR(CheckAttributeName(bounds[0]->text));
    return Node(ExprKind::kItem, line, std::move(node), std::move(bounds[0]));
  }
  ASSIGN_OR_RETURN(ExprPtr slice, Node(ExprKind::kSlice, line, std::move(node)));
  for (ExprPtr& bound : bounds) RETURN_IF_ERROR(Adopt(*slice, std::move(bound)));
  return slice;
}

Status ExpressionParser::ParseArguments(Expr& call) {
  RETURN_IF_ERROR(ExpectOperator("("));
  while (!IsOperator(")")) {
    if (!call.arguments.empty()) {
      RETURN_IF_ERROR(ExpectOperator(","));
      if (IsOperator(")")) break;
    }
    RETURN_IF_ERROR(ParseArgument(call));
  }
  Next();
  return OkStatus();
}

Status ExpressionParser::ParseArgument(Expr& call) {
  if (IsOperator("*") || IsOperator("**")) return FailUnsupported("argument unpacking with '*'");
  Argument argument;
  if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator && ahead().text == "=") {
    argument.keyword = current().text;
    Next();
    Next();
  } else if (!call.arguments.empty() && !call.arguments.back().keyword.empty()) {
    return Fail("a positional argument follows a named one");
  }
  ASSIGN_OR_RETURN(argument.value, ParseExpression());
  call.depth = std::max(call.depth, argument.value->depth + 1);
  if (call.depth > kExpressionDepthMax) {
    return FailUnsupported(fmt::format("an expression nested deeper than {}", kExpressionDepthMax));
  }
  call.arguments.push_back(std::move(argument));
  return OkStatus();
}

StatusOr<ExprPtr> ExpressionParser::ParseFilters(ExprPtr input, bool first_is_named) {
  ExprPtr node = std::move(input);
  while (first_is_named || IsOperator("|")) {
    if (!first_is_named) Next();
    first_is_named = false;
    const uint32_t line = current().line;
    if (current().kind != TokenKind::kName) return ExpectIdentifier("a filter name").status();
    const std::string name = current().text;
    const NativeFn native = FindFilter(name);
    if (native == nullptr) return FailUnsupported(fmt::format("filter '{}'", name));
    Next();
    ASSIGN_OR_RETURN(node, Node(ExprKind::kFilter, line, std::move(node)));
    node->text = name;
    node->native = native;
    if (IsOperator("(")) RETURN_IF_ERROR(ParseArguments(*node));
  }
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseTest(ExprPtr node) {
  const uint32_t line = current().line;
  Next();
  const bool negated = SkipName("not");
  if (current().kind != TokenKind::kName) return ExpectIdentifier("a test name").status();
  const std::string name = current().text;
  const TestFn test = FindTest(name);
  if (test == nullptr) return FailUnsupported(fmt::format("test '{}'", name));
  Next();
  ASSIGN_OR_RETURN(ExprPtr result, Node(ExprKind::kTest, line, std::move(node)));
  result->text = name;
  result->test = test;
  const Token& next = current();
  const bool opens = IsOperator("[") || IsOperator("{");
  const bool literal =
      next.kind == TokenKind::kString || next.kind == TokenKind::kInteger || next.kind == TokenKind::kFloat;
  const bool named =
      next.kind == TokenKind::kName && next.text != "else" && next.text != "or" && next.text != "and";
  if (IsOperator("(")) {
    RETURN_IF_ERROR(ParseArguments(*result));
  } else if (opens || literal || named) {
    if (IsName("is")) return Fail("tests cannot be chained with 'is'");
    Argument argument;
    ASSIGN_OR_RETURN(argument.value, ParsePrimary());
    ASSIGN_OR_RETURN(argument.value, ParsePostfix(std::move(argument.value)));
    result->depth = std::max(result->depth, argument.value->depth + 1);
    result->arguments.push_back(std::move(argument));
  }
  if (!negated) return result;
  return Node(ExprKind::kNot, line, std::move(result));
}

}  // namespace paceline::jinja
