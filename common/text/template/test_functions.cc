// What may follow `is`.
#include <algorithm>

#include "common/text/template/callable.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

// Tests without arguments are predicates over the value alone.
template <bool (*kPredicate)(const Value&)>
StatusOr<bool> Plain(Runtime&, const Value& self, const CallArgs& args) {
  if (!args.positional.empty() || !args.keyword.empty()) {
    return InvalidArgumentError("this test takes no argument");
  }
  return kPredicate(self);
}

StatusOr<Value> OneArgument(const CallArgs& args) {
  if (args.positional.size() != 1 || !args.keyword.empty()) {
    return InvalidArgumentError("this test takes one argument, found {}",
                                args.positional.size() + args.keyword.size());
  }
  return args.positional[0];
}

bool IsDefined(const Value& v) { return !v.is_undefined(); }
bool IsUndefined(const Value& v) { return v.is_undefined(); }
bool IsNone(const Value& v) { return v.is_none(); }
bool IsString(const Value& v) { return v.is_string(); }
bool IsNumber(const Value& v) { return v.is_number(); }
bool IsInteger(const Value& v) { return v.is_int(); }
bool IsFloat(const Value& v) { return v.is_float(); }
bool IsBoolean(const Value& v) { return v.is_bool(); }
bool IsTrue(const Value& v) { return v.is_bool() && v.AsBool(); }
bool IsFalse(const Value& v) { return v.is_bool() && !v.AsBool(); }
bool IsMapping(const Value& v) { return v.is_dict(); }
bool IsCallable(const Value& v) { return v.is_callable() || v.kind() == Kind::kLoop; }

// Jinja's own definition: it has a length and can be subscripted, which is true of undefined and of dicts
// too.
bool IsSequence(const Value& v) {
  if (v.is_list()) return v.AsList().flavor == ListFlavor::kList || v.AsList().flavor == ListFlavor::kTuple;
  return v.is_undefined() || v.is_string() || v.is_dict();
}

StatusOr<bool> CaseIs(const Value& self, bool (*wanted)(char32_t), bool (*refused)(char32_t)) {
  if (!self.is_string()) return false;
  bool any = false;
  const std::string_view text = self.AsString();
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeNext(text, pos);
    if (refused(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

StatusOr<bool> IsUpper(Runtime& runtime, const Value& self, const CallArgs&) {
  if (self.is_string()) RETURN_IF_ERROR(runtime.Work(self.AsString().size()));
  return CaseIs(self, IsUpperCase, IsLowerCase);
}

StatusOr<bool> IsLower(Runtime& runtime, const Value& self, const CallArgs&) {
  if (self.is_string()) RETURN_IF_ERROR(runtime.Work(self.AsString().size()));
  return CaseIs(self, IsLowerCase, IsUpperCase);
}

StatusOr<bool> Divides(const Value& self, int64_t divisor, int64_t remainder) {
  ASSIGN_OR_RETURN(const int64_t number, WantInt(self, "the tested value"));
  if (divisor == 0) return InvalidArgumentError("division by zero");
  if (divisor == -1) return remainder == 0;
  return (number % divisor + divisor) % divisor == remainder;
}

StatusOr<bool> IsOdd(Runtime&, const Value& self, const CallArgs&) { return Divides(self, 2, 1); }
StatusOr<bool> IsEven(Runtime&, const Value& self, const CallArgs&) { return Divides(self, 2, 0); }

StatusOr<bool> IsDivisibleBy(Runtime&, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const Value argument, OneArgument(args));
  ASSIGN_OR_RETURN(const int64_t divisor, WantInt(argument, "the divisor"));
  ASSIGN_OR_RETURN(const int64_t number, WantInt(self, "the tested value"));
  if (divisor == 0) return InvalidArgumentError("division by zero");
  return divisor == -1 || number % divisor == 0;
}

StatusOr<bool> IsEqual(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const Value other, OneArgument(args));
  return Equal(runtime, self, other);
}

StatusOr<bool> IsNotEqual(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const bool equal, IsEqual(runtime, self, args));
  return !equal;
}

StatusOr<bool> IsSameAs(Runtime&, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const Value other, OneArgument(args));
  if (self.kind() != other.kind()) return false;
  if (self.object() != nullptr) return self.object() == other.object();
  return KeysEqual(self, other);
}

StatusOr<bool> IsIn(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const Value container, OneArgument(args));
  return Contains(runtime, container, self);
}

template <bool (*kHolds)(int)>
StatusOr<bool> Ordered(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const Value other, OneArgument(args));
  ASSIGN_OR_RETURN(const int order, Order(runtime, self, other));
  return kHolds(order);
}

bool Less(int order) { return order < 0; }
bool AtMost(int order) { return order <= 0; }
bool Greater(int order) { return order > 0; }
bool AtLeast(int order) { return order >= 0; }

struct Entry {
  std::string_view name;
  TestFn test;
};

constexpr Entry kTests[] = {
    {"boolean", Plain<IsBoolean>},
    {"callable", Plain<IsCallable>},
    {"defined", Plain<IsDefined>},
    {"divisibleby", IsDivisibleBy},
    {"eq", IsEqual},
    {"equalto", IsEqual},
    {"even", IsEven},
    {"false", Plain<IsFalse>},
    {"float", Plain<IsFloat>},
    {"ge", Ordered<AtLeast>},
    {"greaterthan", Ordered<Greater>},
    {"gt", Ordered<Greater>},
    {"in", IsIn},
    {"integer", Plain<IsInteger>},
    {"iterable", Plain<IsIterable>},
    {"le", Ordered<AtMost>},
    {"lessthan", Ordered<Less>},
    {"lower", IsLower},
    {"lt", Ordered<Less>},
    {"mapping", Plain<IsMapping>},
    {"ne", IsNotEqual},
    {"none", Plain<IsNone>},
    {"number", Plain<IsNumber>},
    {"odd", IsOdd},
    {"sameas", IsSameAs},
    {"sequence", Plain<IsSequence>},
    {"string", Plain<IsString>},
    {"true", Plain<IsTrue>},
    {"undefined", Plain<IsUndefined>},
    {"upper", IsUpper},
    // The operators, as selectattr('n', '==', 1) names them.
    {"==", IsEqual},
    {"!=", IsNotEqual},
    {"<", Ordered<Less>},
    {"<=", Ordered<AtMost>},
    {">", Ordered<Greater>},
    {">=", Ordered<AtLeast>},
};

}  // namespace

TestFn FindTest(std::string_view name) {
  const Entry* found = std::find_if(std::begin(kTests), std::end(kTests),
                                    [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kTests) ? nullptr : found->test;
}

}  // namespace paceline::jinja
