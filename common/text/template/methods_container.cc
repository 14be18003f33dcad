// Methods of list and dict. They change only values of this render: the request's JSON was copied in.
#include <algorithm>

#include "common/text/template/callable.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

Status WantMutable(const Value& list) {
  if (list.AsList().flavor == ListFlavor::kList) return OkStatus();
  return InvalidArgumentError("a {} cannot be changed", TypeName(list));
}

void AddItem(Runtime& runtime, const Value& list, Value item) {
  list.AsList().items.push_back(std::move(item));
  runtime.heap.Charge(list.AsList(), sizeof(Value));
}

StatusOr<Value> ListAppend(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("append", args, {"item"}, 1));
  RETURN_IF_ERROR(WantMutable(self));
  AddItem(runtime, self, bound[0]);
  return Value::None();
}

StatusOr<Value> ListExtend(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("extend", args, {"items"}, 1));
  RETURN_IF_ERROR(WantMutable(self));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, bound[0]));
  RETURN_IF_ERROR(runtime.heap.CheckRoom(items.size() * sizeof(Value)));
  for (const Value& item : items) AddItem(runtime, self, item);
  return Value::None();
}

// Clamped into [0, size], counted from the end if negative.
size_t Position(int64_t index, size_t size) {
  const auto count = static_cast<int64_t>(size);
  if (index < 0) index = index < -count ? 0 : index + count;
  return static_cast<size_t>(std::min(index, count));
}

StatusOr<Value> ListInsert(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("insert", args, {"index", "item"}, 2));
  RETURN_IF_ERROR(WantMutable(self));
  ASSIGN_OR_RETURN(const int64_t index, WantInt(bound[0], "insert index"));
  auto& items = self.AsList().items;
  RETURN_IF_ERROR(runtime.Work(items.size() * sizeof(Value)));
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(Position(index, items.size())), bound[1]);
  runtime.heap.Charge(self.AsList(), sizeof(Value));
  return Value::None();
}

StatusOr<Value> ListPop(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("pop", args, {"index"}, 0));
  RETURN_IF_ERROR(WantMutable(self));
  auto& items = self.AsList().items;
  int64_t index = -1;
  if (!bound[0].is_absent()) {
    ASSIGN_OR_RETURN(index, WantInt(bound[0], "pop index"));
  }
  const auto count = static_cast<int64_t>(items.size());
  if (index < 0) index += count;
  if (index < 0 || index >= count) {
    return InvalidArgumentError("pop index is out of range, the list has {} items", count);
  }
  RETURN_IF_ERROR(runtime.Work(items.size() * sizeof(Value)));
  const auto at = items.begin() + static_cast<std::ptrdiff_t>(index);
  Value popped = std::move(*at);
  items.erase(at);
  return popped;
}

StatusOr<int64_t> FindItem(Runtime& runtime, const Value& list, const Value& wanted) {
  const auto& items = list.AsList().items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, items[i], wanted));
    if (equal) return static_cast<int64_t>(i);
  }
  return -1;
}

StatusOr<Value> ListRemove(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("remove", args, {"item"}, 1));
  RETURN_IF_ERROR(WantMutable(self));
  ASSIGN_OR_RETURN(const int64_t at, FindItem(runtime, self, bound[0]));
  if (at < 0) return InvalidArgumentError("remove: the item is not in the list");
  auto& items = self.AsList().items;
  RETURN_IF_ERROR(runtime.Work(items.size() * sizeof(Value)));
  items.erase(items.begin() + at);
  return Value::None();
}

StatusOr<Value> ListIndex(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("index", args, {"item"}, 1));
  ASSIGN_OR_RETURN(const int64_t at, FindItem(runtime, self, bound[0]));
  if (at < 0) return InvalidArgumentError("index: the item is not in the list");
  return Value::Int(at);
}

StatusOr<Value> ListCount(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("count", args, {"item"}, 1));
  int64_t count = 0;
  for (const Value& item : self.AsList().items) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, item, bound[0]));
    if (equal) ++count;
  }
  return Value::Int(count);
}

StatusOr<Value> ListReverse(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("reverse", args, {}, 0).status());
  RETURN_IF_ERROR(WantMutable(self));
  auto& items = self.AsList().items;
  RETURN_IF_ERROR(runtime.Work(items.size() * sizeof(Value)));
  std::reverse(items.begin(), items.end());
  return Value::None();
}

StatusOr<Value> ListCopy(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("copy", args, {}, 0).status());
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  return runtime.heap.List(std::move(items));
}

StatusOr<Value> ListClear(Runtime&, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("clear", args, {}, 0).status());
  RETURN_IF_ERROR(WantMutable(self));
  const std::vector<Value> dropped = std::move(self.AsList().items);
  self.AsList().items.clear();
  return Value::None();
}

StatusOr<Value> DictGet(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("get", args, {"key", "default"}, 1));
  RETURN_IF_ERROR(PayForKey(runtime, self.AsDict(), bound[0]));
  if (const Value* found = self.AsDict().Find(bound[0]); found != nullptr) return *found;
  return bound[1].is_absent() ? Value::None() : bound[1];
}

StatusOr<Value> DictItems(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("items", args, {}, 0).status());
  std::vector<Value> pairs;
  for (const DictEntry& entry : self.AsDict().entries) {
    RETURN_IF_ERROR(runtime.ExpressionNode());
    pairs.push_back(runtime.heap.Tuple({entry.key, entry.value}));
  }
  return runtime.heap.List(std::move(pairs), ListFlavor::kView);
}

StatusOr<Value> DictKeys(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("keys", args, {}, 0).status());
  ASSIGN_OR_RETURN(std::vector<Value> keys, Iterate(runtime, self));
  return runtime.heap.List(std::move(keys), ListFlavor::kView);
}

StatusOr<Value> DictValues(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("values", args, {}, 0).status());
  std::vector<Value> values;
  for (const DictEntry& entry : self.AsDict().entries) {
    RETURN_IF_ERROR(runtime.ExpressionNode());
    values.push_back(entry.value);
  }
  return runtime.heap.List(std::move(values), ListFlavor::kView);
}

StatusOr<Value> DictPop(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("pop", args, {"key", "default"}, 1));
  RETURN_IF_ERROR(PayForKey(runtime, self.AsDict(), bound[0]));
  const Value* found = self.AsDict().Find(bound[0]);
  if (found == nullptr) {
    if (bound[1].is_absent()) return InvalidArgumentError("pop: the key is not in the dict");
    return bound[1];
  }
  Value popped = *found;
  // Entries move up, and the index is built anew for the next look-up.
  RETURN_IF_ERROR(runtime.Work(self.AsDict().entries.size() * 2 * sizeof(DictEntry)));
  self.AsDict().Erase(bound[0]);
  return popped;
}

StatusOr<Value> DictSetDefault(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("setdefault", args, {"key", "default"}, 1));
  RETURN_IF_ERROR(PayForKey(runtime, self.AsDict(), bound[0]));
  if (const Value* found = self.AsDict().Find(bound[0]); found != nullptr) return *found;
  const Value value = bound[1].is_absent() ? Value::None() : bound[1];
  self.AsDict().Set(bound[0], value);
  return value;
}

StatusOr<Value> DictUpdate(Runtime& runtime, const Value& self, const CallArgs& args) {
  if (args.positional.size() > 1) return InvalidArgumentError("update takes one dict");
  if (!args.positional.empty()) {
    if (!args.positional[0].is_dict()) {
      return InvalidArgumentError("update needs a dict, found {}", TypeName(args.positional[0]));
    }
    const std::vector<DictEntry> entries = args.positional[0].AsDict().entries;  // it may be `self`
    for (const DictEntry& entry : entries) {
      RETURN_IF_ERROR(runtime.Step());
      RETURN_IF_ERROR(PayForKey(runtime, self.AsDict(), entry.key));
      self.AsDict().Set(entry.key, entry.value);
    }
  }
  for (const auto& [name, value] : args.keyword) self.AsDict().SetString(name, value);
  return Value::None();
}

StatusOr<Value> DictCopy(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("copy", args, {}, 0).status());
  Value copy = runtime.heap.Dict();
  for (const DictEntry& entry : self.AsDict().entries) {
    RETURN_IF_ERROR(runtime.Step());
    RETURN_IF_ERROR(PayForKey(runtime, copy.AsDict(), entry.key));
    copy.AsDict().Set(entry.key, entry.value);
  }
  return copy;
}

struct Entry {
  std::string_view name;
  NativeFn method;
};

constexpr Entry kListMethods[] = {
    {"append", ListAppend}, {"clear", ListClear},     {"copy", ListCopy},     {"count", ListCount},
    {"extend", ListExtend}, {"index", ListIndex},     {"insert", ListInsert}, {"pop", ListPop},
    {"remove", ListRemove}, {"reverse", ListReverse},
};

constexpr Entry kDictMethods[] = {
    {"copy", DictCopy}, {"get", DictGet},       {"items", DictItems},           {"keys", DictKeys},
    {"pop", DictPop},   {"values", DictValues}, {"setdefault", DictSetDefault}, {"update", DictUpdate},
};

template <size_t kCount>
NativeFn FindIn(const Entry (&entries)[kCount], std::string_view name) {
  const Entry* found = std::find_if(std::begin(entries), std::end(entries),
                                    [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(entries) ? nullptr : found->method;
}

}  // namespace

NativeFn FindListMethod(std::string_view name) { return FindIn(kListMethods, name); }
NativeFn FindDictMethod(std::string_view name) { return FindIn(kDictMethods, name); }

}  // namespace paceline::jinja
