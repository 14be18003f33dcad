// The functions a template finds by name: all there is of the world outside its arguments.
#include <algorithm>
#include <ctime>

#include "common/text/template/callable.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

constexpr int64_t kRangeMax = 100'000;  // jinja2's sandbox has the same

StatusOr<Value> RaiseException(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("raise_exception", args, {"message"}, 1));
  ASSIGN_OR_RETURN(const std::string message, ToText(runtime, bound[0]));
  runtime.raised = true;
  return InvalidArgumentError("{}", message);
}

StatusOr<Value> StrftimeNow(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("strftime_now", args, {"format"}, 1));
  ASSIGN_OR_RETURN(const std::string_view format, WantString(bound[0], "the format of strftime_now"));
  if (format.size() > 256 || format.find('\0') != std::string_view::npos) {
    return InvalidArgumentError("the format of strftime_now is longer than 256 bytes or has a zero byte");
  }
  // Widths ("%999999d") would make the C library write that much; Python's own formats have none.
  for (size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at + 2)) {
    if (at + 1 < format.size() && format[at + 1] >= '1' && format[at + 1] <= '9') {
      return InvalidArgumentError("the format of strftime_now has a field width");
    }
  }
  const std::tm local = runtime.LocalTime();
  char buffer[4096];
  const size_t written = std::strftime(buffer, sizeof buffer, std::string(format).c_str(), &local);
  return runtime.heap.String(std::string_view(buffer, written));
}

StatusOr<Value> Namespace(Runtime& runtime, const Value&, const CallArgs& args) {
  Value result = runtime.heap.Namespace();
  if (args.positional.size() > 1) return InvalidArgumentError("namespace takes at most one dict");
  if (!args.positional.empty()) {
    if (!args.positional[0].is_dict()) {
      return InvalidArgumentError("namespace needs a dict, found {}", TypeName(args.positional[0]));
    }
    for (const DictEntry& entry : args.positional[0].AsDict().entries) {
      RETURN_IF_ERROR(runtime.Step());
      RETURN_IF_ERROR(PayForKey(runtime, result.AsDict(), entry.key));
      result.AsDict().Set(entry.key, entry.value);
    }
  }
  for (const auto& [name, value] : args.keyword) result.AsDict().SetString(name, value);
  return result;
}

StatusOr<Value> Range(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("range", args, {"start", "stop", "step"}, 1));
  ASSIGN_OR_RETURN(int64_t start, WantInt(bound[0], "range start"));
  int64_t stop = start;
  int64_t step = 1;
  if (bound[1].is_absent()) {
    start = 0;
  } else {
    ASSIGN_OR_RETURN(stop, WantInt(bound[1], "range stop"));
  }
  if (!bound[2].is_absent()) {
    ASSIGN_OR_RETURN(step, WantInt(bound[2], "range step"));
  }
  if (step == 0) return InvalidArgumentError("range step must not be zero");
  std::vector<Value> numbers;
  for (int64_t n = start; step > 0 ? n < stop : n > stop;) {
    if (static_cast<int64_t>(numbers.size()) == kRangeMax) {
      return ResourceExhaustedError("range has more than {} numbers", kRangeMax);
    }
    numbers.push_back(Value::Int(n));
    if (__builtin_add_overflow(n, step, &n)) break;
  }
  RETURN_IF_ERROR(runtime.Work(numbers.size() * sizeof(Value)));
  return runtime.heap.List(std::move(numbers));
}

StatusOr<Value> Dict(Runtime& runtime, const Value&, const CallArgs& args) {
  Value result = runtime.heap.Dict();
  if (args.positional.size() > 1) return InvalidArgumentError("dict takes at most one argument");
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const DictEntry& entry : args.positional[0].AsDict().entries) {
      RETURN_IF_ERROR(runtime.Step());
      RETURN_IF_ERROR(PayForKey(runtime, result.AsDict(), entry.key));
      result.AsDict().Set(entry.key, entry.value);
    }
  } else if (!args.positional.empty()) {
    ASSIGN_OR_RETURN(const std::vector<Value> pairs, Iterate(runtime, args.positional[0]));
    for (const Value& pair : pairs) {
      RETURN_IF_ERROR(runtime.Step());
      ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, pair));
      if (items.size() != 2) return InvalidArgumentError("dict needs pairs, found {} items", items.size());
      RETURN_IF_ERROR(PayForKey(runtime, result.AsDict(), items[0]));
      result.AsDict().Set(items[0], items[1]);
    }
  }
  for (const auto& [name, value] : args.keyword) result.AsDict().SetString(name, value);
  return result;
}

// A cycler's state is a list: the items as a tuple, and the position.
StatusOr<Value> CyclerCurrent(Runtime&, const Value& self, const CallArgs&) {
  const auto& state = self.AsList().items;
  return state[0].AsList().items[static_cast<size_t>(state[1].AsInt())];
}

StatusOr<Value> CyclerNext(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("next", args, {}, 0).status());
  ASSIGN_OR_RETURN(Value current, CyclerCurrent(runtime, self, args));
  auto& state = self.AsList().items;
  const auto count = static_cast<int64_t>(state[0].AsList().items.size());
  state[1] = Value::Int((state[1].AsInt() + 1) % count);
  return current;
}

StatusOr<Value> CyclerReset(Runtime&, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("reset", args, {}, 0).status());
  self.AsList().items[1] = Value::Int(0);
  return Value::None();
}

NativeFn FindCyclerAttribute(std::string_view name) {
  if (name == "next") return CyclerNext;
  if (name == "reset") return CyclerReset;
  if (name == "current") return CyclerCurrent;
  return nullptr;
}

StatusOr<Value> CallCycler(Runtime&, const Value&, const CallArgs&) {
  return InvalidArgumentError("a cycler cannot be called; use its next()");
}

StatusOr<Value> Cycler(Runtime& runtime, const Value&, const CallArgs& args) {
  if (args.positional.empty()) return InvalidArgumentError("cycler needs at least one item");
  Heap& heap = runtime.heap;
  Value cycler =
      MakeNative(heap, "cycler", CallCycler, heap.List({heap.Tuple(args.positional), Value::Int(0)}));
  cycler.AsCallable().attributes = FindCyclerAttribute;
  return cycler;
}

// A joiner's state is a list: the separator, and whether it was called.
StatusOr<Value> CallJoiner(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("joiner", args, {}, 0).status());
  auto& state = self.AsList().items;
  if (state[1].AsBool()) return state[0];
  state[1] = Value::Bool(true);
  return runtime.heap.String("");
}

StatusOr<Value> Joiner(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("joiner", args, {"sep"}, 0));
  Value separator = bound[0].is_absent() ? runtime.heap.String(", ") : bound[0];
  return MakeNative(runtime.heap, "joiner", CallJoiner,
                    runtime.heap.List({std::move(separator), Value::Bool(false)}));
}

}  // namespace

NativeFn FindGlobal(std::string_view name) {
  static constexpr NativeFn kGlobals[] = {RaiseException, StrftimeNow, Namespace, Range,
                                          Dict,           Cycler,      Joiner};
  static_assert(std::size(kGlobals) == std::size(kGlobalNames));
  const auto* found = std::find(std::begin(kGlobalNames), std::end(kGlobalNames), name);
  return found == std::end(kGlobalNames) ? nullptr : kGlobals[found - std::begin(kGlobalNames)];
}

}  // namespace paceline::jinja
