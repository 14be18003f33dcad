// + - * / // % ** on numbers, strings and lists, as Python defines them; integers are 64 bits and overflow is
// an error.
#include <cmath>
#include <limits>

#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

Status Mismatch(BinaryOp op, const Value& a, const Value& b) {
  return InvalidArgumentError("'{}' does not work between {} and {}", kSymbols[static_cast<size_t>(op)],
                              TypeName(a), TypeName(b));
}

Status Overflow(BinaryOp op) {
  return InvalidArgumentError("'{}' leaves the range of 64-bit integers", kSymbols[static_cast<size_t>(op)]);
}

Status DivisionByZero() { return InvalidArgumentError("division by zero"); }

double FloorModulo(double x, double y) {
  double r = std::fmod(x, y);
  if (r != 0.0 && (r < 0) != (y < 0)) r += y;
  return r;
}

StatusOr<Value> IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow(BinaryOp::kPow);
    }
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow(BinaryOp::kPow);
  }
  return Value::Int(result);
}

StatusOr<Value> IntegerArithmetic(BinaryOp op, int64_t x, int64_t y) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(x, y, &result)) return Overflow(op);
      return Value::Int(result);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(x, y, &result)) return Overflow(op);
      return Value::Int(result);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(x, y, &result)) return Overflow(op);
      return Value::Int(result);
    case BinaryOp::kDiv:
      if (y == 0) return DivisionByZero();
      return Value::Float(static_cast<double>(x) / static_cast<double>(y));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (y == 0) return DivisionByZero();
      if (y == -1) {  // the one quotient that can overflow
        if (op == BinaryOp::kMod) return Value::Int(0);
        if (x == std::numeric_limits<int64_t>::min()) return Overflow(op);
        return Value::Int(-x);
      }
      const bool adjust = x % y != 0 && (x % y < 0) != (y < 0);
      if (op == BinaryOp::kMod) return Value::Int(x % y + (adjust ? y : 0));
      return Value::Int(x / y - (adjust ? 1 : 0));
    }
    case BinaryOp::kPow:
      return IntegerPower(x, y);
  }
  return InternalError("unknown operator");
}

StatusOr<Value> FloatArithmetic(BinaryOp op, double x, double y) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(x + y);
    case BinaryOp::kSub:
      return Value::Float(x - y);
    case BinaryOp::kMul:
      return Value::Float(x * y);
    case BinaryOp::kDiv:
      if (y == 0.0) return DivisionByZero();
      return Value::Float(x / y);
    case BinaryOp::kFloorDiv:
      if (y == 0.0) return DivisionByZero();
      return Value::Float(std::floor(x / y));
    case BinaryOp::kMod:
      if (y == 0.0) return DivisionByZero();
      return Value::Float(FloorModulo(x, y));
    case BinaryOp::kPow:
      if (x == 0.0 && y < 0) return DivisionByZero();
      return Value::Float(std::pow(x, y));
  }
  return InternalError("unknown operator");
}

StatusOr<Value> AddStrings(Runtime& runtime, const Value& a, const Value& b) {
  TextBuilder out(runtime.heap);
  const bool markup = a.is_markup() || b.is_markup();
  for (const Value* side : {&a, &b}) {
    if (markup && !side->is_markup()) {
      out.Append(EscapeHtml(side->AsString()));
    } else {
      out.Append(side->AsString());
    }
  }
  RETURN_IF_ERROR(runtime.Work(out.size()));
  ASSIGN_OR_RETURN(Value sum, out.Finish());
  sum.set_markup(markup);
  return sum;
}

StatusOr<Value> AddLists(Runtime& runtime, const Value& a, const Value& b) {
  const auto& x = a.AsList();
  const auto& y = b.AsList();
  const size_t count = x.items.size() + y.items.size();
  RETURN_IF_ERROR(runtime.Work(count * sizeof(Value)));
  RETURN_IF_ERROR(runtime.heap.CheckRoom(count * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(count);
  items.insert(items.end(), x.items.begin(), x.items.end());
  items.insert(items.end(), y.items.begin(), y.items.end());
  return runtime.heap.List(std::move(items), x.flavor);
}

StatusOr<Value> RepeatString(Runtime& runtime, const Value& text, int64_t count) {
  const std::string_view unit = text.AsString();
  if (count <= 0 || unit.empty()) return runtime.heap.String("");
  const auto times = static_cast<size_t>(count);
  if (times > runtime.heap.string_bytes_max() / unit.size()) {
    return ResourceExhaustedError("template text of {} x {} bytes exceeds output_bytes_max {}", times,
                                  unit.size(), runtime.heap.string_bytes_max());
  }
  RETURN_IF_ERROR(runtime.Work(times * unit.size()));
  const size_t length = times * unit.size();
  std::string out;
  out.reserve(length);
  out = unit;
  while (out.size() < length) out.append(out, 0, length - out.size());  // doubles
  return runtime.heap.String(std::move(out));
}

StatusOr<Value> RepeatList(Runtime& runtime, const Value& list, int64_t count) {
  const auto& unit = list.AsList();
  if (count <= 0 || unit.items.empty()) return runtime.heap.List({}, unit.flavor);
  size_t bytes = 0;
  if (__builtin_mul_overflow(unit.items.size() * sizeof(Value), static_cast<size_t>(count), &bytes)) {
    return runtime.heap.CheckRoom(std::numeric_limits<size_t>::max());
  }
  RETURN_IF_ERROR(runtime.heap.CheckRoom(bytes));
  RETURN_IF_ERROR(runtime.Work(bytes));
  std::vector<Value> items;
  items.reserve(unit.items.size() * static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) items.insert(items.end(), unit.items.begin(), unit.items.end());
  return runtime.heap.List(std::move(items), unit.flavor);
}

bool IsRepeatable(const Value& v) {
  return v.is_string() ||
         (v.is_list() && (v.AsList().flavor == ListFlavor::kList || v.AsList().flavor == ListFlavor::kTuple));
}

}  // namespace

StatusOr<Value> Arithmetic(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_undefined()) return UndefinedUse(a);
  if (b.is_undefined()) return UndefinedUse(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return FloatArithmetic(op, a.AsDouble(), b.AsDouble());
    return IntegerArithmetic(op, a.AsInt(), b.AsInt());
  }
  if (op == BinaryOp::kAdd && a.is_string() && b.is_string()) return AddStrings(runtime, a, b);
  if (op == BinaryOp::kAdd && IsRepeatable(a) && IsRepeatable(b) && a.is_list() && b.is_list() &&
      a.AsList().flavor == b.AsList().flavor) {
    return AddLists(runtime, a, b);
  }
  if (op == BinaryOp::kMul && IsRepeatable(a) && b.is_integral()) {
    return a.is_string() ? RepeatString(runtime, a, b.AsInt()) : RepeatList(runtime, a, b.AsInt());
  }
  if (op == BinaryOp::kMul && IsRepeatable(b) && a.is_integral()) return Arithmetic(runtime, op, b, a);
  if (op == BinaryOp::kMod && a.is_string()) {
    return UnimplementedError("string formatting with '%' is not supported; use '~' or str.format");
  }
  return Mismatch(op, a, b);
}

StatusOr<Value> Negate(const Value& value) {
  if (value.is_undefined()) return UndefinedUse(value);
  if (value.is_float()) return Value::Float(-value.AsDouble());
  if (!value.is_integral()) return InvalidArgumentError("'-' does not work on {}", TypeName(value));
  if (value.AsInt() == std::numeric_limits<int64_t>::min()) return Overflow(BinaryOp::kSub);
  return Value::Int(-value.AsInt());
}

}  // namespace paceline::jinja
