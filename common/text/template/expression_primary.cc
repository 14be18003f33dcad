// Literals, names, targets, and what follows a primary: subscripts, calls, filters, tests.
#include <algorithm>

#include "common/text/template/expression_parser.h"

namespace paceline::jinja {

StatusOr<ExprPtr> ExpressionParser::ParsePrimary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseString();
    case TokenKind::kInteger: {
      ExprPtr node = NewNode(ExprKind::kInteger, token.line);
      node->integer = token.integer;
      Next();
      return node;
    }
    case TokenKind::kFloat: {
      ExprPtr node = NewNode(ExprKind::kFloat, token.line);
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
    ExprPtr node = NewNode(ExprKind::kBool, token.line);
    node->integer = token.text == "true" || token.text == "True" ? 1 : 0;
    return node;
  }
  if (token.text == "none" || token.text == "None") return NewNode(ExprKind::kNone, token.line);
  special_names.caller |= token.text == "caller";
  special_names.varargs |= token.text == "varargs";
  special_names.kwargs |= token.text == "kwargs";
  ExprPtr node = NewNode(ExprKind::kName, token.line);
  node->text = token.text;
  node->symbol = symbols_.Intern(token.text);
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseString() {
  ExprPtr node = NewNode(ExprKind::kString, current().line);
  for (; current().kind == TokenKind::kString; Next()) node->text += current().text;
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseParentheses() {
  const uint32_t line = current().line;
  Next();
  if (SkipOperator(")")) return NewNode(ExprKind::kTuple, line);
  ASSIGN_OR_RETURN(ExprPtr node, ParseTuple(Conditional::kAllowed));
  RETURN_IF_ERROR(ExpectOperator(")"));
  return node;
}

StatusOr<ExprPtr> ExpressionParser::ParseList() {
  ExprPtr node = NewNode(ExprKind::kList, current().line);
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
  ExprPtr node = NewNode(ExprKind::kDict, current().line);
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
    ExprPtr target = NewNode(ExprKind::kName, line);
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
    ExprPtr index = NewNode(ExprKind::kInteger, line);
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
