#include "common/text/template/runtime.h"

#include "common/text/template/callable.h"

namespace paceline::jinja {

std::tm Runtime::LocalTime() const {
  const auto now = limits_.now.value_or(std::chrono::system_clock::now());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

Status Runtime::StepsExhausted() const {
  return ResourceExhaustedError("template needs more than steps_max {} steps", limits_.steps_max);
}

Status Runtime::WorkExhausted() const {
  return ResourceExhaustedError("template reads or writes more than work_bytes_max {} bytes",
                                limits_.work_bytes_max);
}

Status NestedTooDeep() {
  return ResourceExhaustedError("template value nests deeper than {} containers", kValueDepthMax);
}

Value MakeNative(Heap& heap, std::string_view name, NativeFn native, Value self) {
  auto* object = heap.Adopt(new CallableObject, sizeof(CallableObject));
  object->name = name;
  object->native = native;
  object->self = std::move(self);
  return Value::OfObject(Kind::kCallable, object);
}

Value MakeMacro(Heap& heap, const MacroDef& macro, Value scope) {
  auto* object = heap.Adopt(new CallableObject, sizeof(CallableObject));
  object->macro = &macro;
  object->scope = std::move(scope);
  return Value::OfObject(Kind::kCallable, object);
}

StatusOr<std::vector<Value>> BindArgs(std::string_view function, const CallArgs& args,
                                      std::initializer_list<std::string_view> names, size_t required) {
  if (args.positional.size() > names.size()) {
    return InvalidArgumentError("{}() takes at most {} arguments, found {}", function, names.size(),
                                args.positional.size());
  }
  std::vector<Value> bound(args.positional);
  bound.resize(names.size(), Value::Absent());
  for (const auto& [name, value] : args.keyword) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != name) ++i;
    if (i == names.size()) return InvalidArgumentError("{}() has no argument '{}'", function, name);
    if (i < args.positional.size()) return InvalidArgumentError("{}() got '{}' twice", function, name);
    bound[i] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i].is_absent()) {
      return InvalidArgumentError("{}() needs the argument '{}'", function, names.begin()[i]);
    }
  }
  return bound;
}

}  // namespace paceline::jinja
