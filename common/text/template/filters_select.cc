// map, select, reject, selectattr, rejectattr: filters that apply another filter or test to every item.
#include "common/text/template/filters.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

struct Selection {
  std::string_view function;
  bool by_attribute = false;
  bool keep_if = true;
};

StatusOr<Value> SelectItems(Runtime& runtime, const Value& self, const CallArgs& args, const Selection& how) {
  if (!Truthy(self)) return runtime.heap.List({}, ListFlavor::kGenerator);  // None too, as jinja2 has it
  size_t next = 0;
  Value attribute;
  if (how.by_attribute) {
    if (args.positional.empty()) return InvalidArgumentError("{} needs an attribute name", how.function);
    attribute = args.positional[next++];
  }
  TestFn test = nullptr;
  CallArgs test_args;
  if (args.positional.size() > next) {
    ASSIGN_OR_RETURN(const std::string_view name, WantString(args.positional[next++], "the name of a test"));
    test = FindTest(name);
    if (test == nullptr) return UnimplementedError("test '{}' is not supported", name);
    test_args.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(next),
                                args.positional.end());
    test_args.keyword = args.keyword;
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  std::vector<Value> kept;
  for (const Value& item : items) {
    RETURN_IF_ERROR(runtime.Step());
    Value tested = item;
    if (how.by_attribute) {
      ASSIGN_OR_RETURN(tested, GetPath(runtime, item, attribute));
    }
    bool passed = false;
    if (test == nullptr) {
      passed = Truthy(tested);
    } else {
      ASSIGN_OR_RETURN(passed, test(runtime, tested, test_args));
    }
    if (passed == how.keep_if) kept.push_back(item);
  }
  return runtime.heap.List(std::move(kept), ListFlavor::kGenerator);
}

StatusOr<Value> MapAttribute(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("map", args, {"attribute", "default"}, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    RETURN_IF_ERROR(runtime.Step());
    ASSIGN_OR_RETURN(Value value, GetPath(runtime, item, bound[0], bound[1]));
    mapped.push_back(std::move(value));
  }
  return runtime.heap.List(std::move(mapped), ListFlavor::kGenerator);
}

}  // namespace

StatusOr<Value> FilterMap(Runtime& runtime, const Value& self, const CallArgs& args) {
  if (!Truthy(self)) return runtime.heap.List({}, ListFlavor::kGenerator);
  if (args.positional.empty()) return MapAttribute(runtime, self, args);
  ASSIGN_OR_RETURN(const std::string_view name, WantString(args.positional[0], "the name of a filter"));
  const NativeFn filter = FindFilter(name);
  if (filter == nullptr) return UnimplementedError("filter '{}' is not supported", name);
  // A filter applied through map maps nothing itself, so that native recursion ends here.
  if (filter == FilterMap) return UnimplementedError("map of map is not supported");
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + 1, args.positional.end());
  rest.keyword = args.keyword;
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    RETURN_IF_ERROR(runtime.Step());
    ASSIGN_OR_RETURN(Value value, filter(runtime, item, rest));
    mapped.push_back(std::move(value));
  }
  return runtime.heap.List(std::move(mapped), ListFlavor::kGenerator);
}

StatusOr<Value> FilterSelect(Runtime& runtime, const Value& self, const CallArgs& args) {
  return SelectItems(runtime, self, args, {"select", false, true});
}

StatusOr<Value> FilterReject(Runtime& runtime, const Value& self, const CallArgs& args) {
  return SelectItems(runtime, self, args, {"reject", false, false});
}

StatusOr<Value> FilterSelectAttr(Runtime& runtime, const Value& self, const CallArgs& args) {
  return SelectItems(runtime, self, args, {"selectattr", true, true});
}

StatusOr<Value> FilterRejectAttr(Runtime& runtime, const Value& self, const CallArgs& args) {
  return SelectItems(runtime, self, args, {"rejectattr", true, false});
}

}  // namespace paceline::jinja
