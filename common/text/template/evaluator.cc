// The expression half of the interpreter.
#include <algorithm>

#include "common/text/template/interpreter.h"

namespace paceline::jinja {
namespace {

StatusOr<std::optional<int64_t>> SliceBound(const Value& value) {
  if (value.is_none()) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t bound, WantInt(value, "slice bound"));
  // Beyond any length, and safe to add a length to.
  constexpr int64_t kFar = int64_t{1} << 62;
  return std::optional<int64_t>(std::clamp(bound, -kFar, kFar));
}

}  // namespace

StatusOr<Value> Interpreter::Eval(const Expr& expr) {
  DepthGuard guard(depth_, runtime_.depth_max());
  if (!guard.fits()) {
    return ResourceExhaustedError("template calls nest deeper than depth_max {}", runtime_.depth_max());
  }
  RETURN_IF_ERROR(runtime_.ExpressionNode());
  line_ = expr.line;
  return EvalInner(expr);
}

StatusOr<Value> Interpreter::EvalInner(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kNone:
      return Value::None();
    case ExprKind::kBool:
      return Value::Bool(expr.integer != 0);
    case ExprKind::kInteger:
      return Value::Int(expr.integer);
    case ExprKind::kFloat:
      return Value::Float(expr.number);
    case ExprKind::kString:
      RETURN_IF_ERROR(runtime_.Work(expr.text.size()));
      return runtime_.heap.String(expr.text);
    case ExprKind::kName:
      return Lookup(expr);
    case ExprKind::kTuple:
      return EvalSequence(expr, ListFlavor::kTuple);
    case ExprKind::kList:
      return EvalSequence(expr, ListFlavor::kList);
    case ExprKind::kDict:
      return EvalDict(expr);
    case ExprKind::kAttribute: {
      ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
      return GetAttribute(runtime_, value, expr.text);
    }
    case ExprKind::kItem: {
      ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
      ASSIGN_OR_RETURN(const Value key, Eval(*expr.operands[1]));
      ASSIGN_OR_RETURN(Value item, GetItem(runtime_, value, key));
      // The literal outlives the render and says in an error what was missing.
      if (item.is_undefined() && expr.operands[1]->kind == ExprKind::kString) {
        return Value::Undefined(&expr.operands[1]->text);
      }
      return item;
    }
    case ExprKind::kSlice:
      return EvalSlice(expr);
    case ExprKind::kCall:
      return EvalCall(expr, nullptr);
    case ExprKind::kFilter:
      return EvalFilter(expr);
    case ExprKind::kTest:
      return EvalTest(expr);
    case ExprKind::kNot: {
      ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
      return Value::Bool(!Truthy(value));
    }
    case ExprKind::kNegate: {
      ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
      return Negate(value);
    }
    case ExprKind::kPlus: {
      ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
      return Arithmetic(runtime_, BinaryOp::kAdd, Value::Int(0), value);
    }
    case ExprKind::kBinary: {
      ASSIGN_OR_RETURN(const Value left, Eval(*expr.operands[0]));
      ASSIGN_OR_RETURN(const Value right, Eval(*expr.operands[1]));
      return Arithmetic(runtime_, expr.op, left, right);
    }
    case ExprKind::kConcat:
      return EvalConcat(expr);
    case ExprKind::kCompare:
      return EvalCompare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      ASSIGN_OR_RETURN(Value left, Eval(*expr.operands[0]));
      if (Truthy(left) == (expr.kind == ExprKind::kOr)) return left;
      return Eval(*expr.operands[1]);
    }
    case ExprKind::kConditional:
      return EvalConditional(expr);
  }
  return InternalError("unknown expression");
}

StatusOr<Value> Interpreter::EvalSequence(const Expr& expr, ListFlavor flavor) {
  std::vector<Value> items;
  items.reserve(expr.operands.size());
  for (const ExprPtr& operand : expr.operands) {
    ASSIGN_OR_RETURN(Value item, Eval(*operand));
    items.push_back(std::move(item));
  }
  return runtime_.heap.List(std::move(items), flavor);
}

StatusOr<Value> Interpreter::EvalDict(const Expr& expr) {
  Value dict = runtime_.heap.Dict();
  for (size_t i = 0; i + 1 < expr.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, Eval(*expr.operands[i]));
    RETURN_IF_ERROR(CheckHashable(key));
    ASSIGN_OR_RETURN(Value value, Eval(*expr.operands[i + 1]));
    dict.AsDict().Set(std::move(key), std::move(value));
  }
  return dict;
}

StatusOr<Value> Interpreter::EvalSlice(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.operands[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(const Value bound, Eval(*expr.operands[i + 1]));
    ASSIGN_OR_RETURN(bounds[i], SliceBound(bound));
  }
  return Slice(runtime_, value, {bounds[0], bounds[1], bounds[2]});
}

StatusOr<Value> Interpreter::EvalFilter(const Expr& expr) {
  Value input = block_input_;
  if (expr.operands[0] != nullptr) {
    ASSIGN_OR_RETURN(input, Eval(*expr.operands[0]));
  }
  ASSIGN_OR_RETURN(const CallArgs args, EvalArguments(expr));
  return expr.native(runtime_, input, args);
}

StatusOr<Value> Interpreter::EvalTest(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, Eval(*expr.operands[0]));
  ASSIGN_OR_RETURN(const CallArgs args, EvalArguments(expr));
  ASSIGN_OR_RETURN(const bool passed, expr.test(runtime_, value, args));
  return Value::Bool(passed);
}

StatusOr<Value> Interpreter::EvalCompare(const Expr& expr) {
  ASSIGN_OR_RETURN(Value left, Eval(*expr.operands[0]));
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Eval(*expr.operands[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, CompareOnce(expr.compare_ops[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

StatusOr<bool> Interpreter::CompareOnce(CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq:
      return Equal(runtime_, a, b);
    case CompareOp::kNe: {
      ASSIGN_OR_RETURN(const bool equal, Equal(runtime_, a, b));
      return !equal;
    }
    case CompareOp::kIn:
      return Contains(runtime_, b, a);
    case CompareOp::kNotIn: {
      ASSIGN_OR_RETURN(const bool contains, Contains(runtime_, b, a));
      return !contains;
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(const int order, Order(runtime_, a, b));
  if (op == CompareOp::kLt) return order < 0;
  if (op == CompareOp::kLe) return order <= 0;
  if (op == CompareOp::kGt) return order > 0;
  return order >= 0;
}

StatusOr<Value> Interpreter::EvalConcat(const Expr& expr) {
  TextBuilder out(runtime_.heap);
  for (const ExprPtr& operand : expr.operands) {
    ASSIGN_OR_RETURN(const Value value, Eval(*operand));
    if (value.is_string()) {
      out.Append(value.AsString());
    } else {
      ASSIGN_OR_RETURN(const std::string text, ToText(runtime_, value));
      out.Append(text);
    }
  }
  RETURN_IF_ERROR(runtime_.Work(out.size()));
  return out.Finish();
}

StatusOr<Value> Interpreter::EvalConditional(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value condition, Eval(*expr.operands[1]));
  if (Truthy(condition)) return Eval(*expr.operands[0]);
  if (expr.operands.size() < 3) return Value();
  return Eval(*expr.operands[2]);
}

StatusOr<CallArgs> Interpreter::EvalArguments(const Expr& expr) {
  CallArgs args;
  for (const Argument& argument : expr.arguments) {
    ASSIGN_OR_RETURN(Value value, Eval(*argument.value));
    if (argument.keyword.empty()) {
      args.positional.push_back(std::move(value));
    } else {
      args.keyword.emplace_back(argument.keyword, std::move(value));
    }
  }
  return args;
}

StatusOr<Value> Interpreter::EvalCall(const Expr& expr, const Value* caller) {
  ASSIGN_OR_RETURN(const Value callee, Eval(*expr.operands[0]));
  ASSIGN_OR_RETURN(CallArgs args, EvalArguments(expr));
  line_ = expr.line;
  if (callee.is_undefined()) {
    const std::string_view name = callee.undefined_name();
    return InvalidArgumentError("'{}' is called but is undefined, or is not supported by this engine",
                                name.empty() ? "expression" : name);
  }
  if (!callee.is_callable()) return InvalidArgumentError("'{}' cannot be called", TypeName(callee));
  if (caller != nullptr) args.keyword.emplace_back("caller", *caller);
  const CallableObject& callable = callee.AsCallable();
  if (callable.macro != nullptr) return CallMacro(callable, args);
  return callable.native(runtime_, callable.self, args);
}

}  // namespace paceline::jinja
