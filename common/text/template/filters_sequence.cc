// Filters over sequences that need neither order nor a test.
#include <algorithm>

#include "common/text/template/filters.h"
#include "common/text/template/text_ops.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {

StatusOr<Value> FilterLength(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("length", args, {}, 0).status());
  if (self.is_string()) RETURN_IF_ERROR(runtime.Work(self.AsString().size()));
  const std::optional<size_t> length = Length(self);
  if (!length.has_value()) return InvalidArgumentError("'{}' has no length", TypeName(self));
  return Value::Int(static_cast<int64_t>(*length));
}

StatusOr<Value> FilterList(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("list", args, {}, 0).status());
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  return runtime.heap.List(std::move(items));
}

StatusOr<Value> FilterFirst(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("first", args, {}, 0).status());
  if (self.is_string()) return GetItem(runtime, self, Value::Int(0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  return items.empty() ? Value() : items.front();
}

StatusOr<Value> FilterLast(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("last", args, {}, 0).status());
  if (self.is_string()) return GetItem(runtime, self, Value::Int(-1));
  if (self.is_list() && self.AsList().flavor == ListFlavor::kGenerator) {
    return InvalidArgumentError("the last item of a generator is unknown; make it a |list first");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  return items.empty() ? Value() : items.back();
}

StatusOr<Value> FilterReverse(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("reverse", args, {}, 0).status());
  if (self.is_string()) return Slice(runtime, self, {std::nullopt, std::nullopt, -1});
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  std::reverse(items.begin(), items.end());
  return runtime.heap.List(std::move(items), ListFlavor::kGenerator);
}

StatusOr<Value> FilterJoin(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("join", args, {"d", "attribute"}, 0));
  std::string separator;
  if (!bound[0].is_absent()) {
    ASSIGN_OR_RETURN(separator, ToText(runtime, bound[0]));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  TextBuilder out(runtime.heap);
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(runtime.Step());
    Value item = items[i];
    if (!bound[1].is_absent() && !bound[1].is_none()) {
      ASSIGN_OR_RETURN(item, GetPath(runtime, item, bound[1]));
    }
    if (i > 0) out.Append(separator);
    ASSIGN_OR_RETURN(const std::string text, ToText(runtime, item));
    out.Append(text);
  }
  RETURN_IF_ERROR(runtime.Work(out.size()));
  return out.Finish();
}

StatusOr<Value> FilterItems(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(BindArgs("items", args, {}, 0).status());
  std::vector<Value> pairs;
  if (!self.is_undefined()) {
    if (!self.is_dict()) return InvalidArgumentError("items needs a dict, found {}", TypeName(self));
    for (const DictEntry& entry : self.AsDict().entries) {
      RETURN_IF_ERROR(runtime.Step());
      pairs.push_back(runtime.heap.Tuple({entry.key, entry.value}));
    }
  }
  return runtime.heap.List(std::move(pairs), ListFlavor::kGenerator);
}

StatusOr<Value> FilterBatch(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("batch", args, {"linecount", "fill_with"}, 1));
  ASSIGN_OR_RETURN(const int64_t size, WantInt(bound[0], "batch linecount"));
  if (size < 1) return InvalidArgumentError("batch linecount must be at least 1, found {}", size);
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  std::vector<Value> batches;
  const bool fill = !bound[1].is_absent() && !bound[1].is_none();
  for (size_t start = 0; start < items.size();) {
    RETURN_IF_ERROR(runtime.Step());
    const size_t count = std::min(items.size() - start, static_cast<size_t>(size));
    const auto first = items.begin() + static_cast<std::ptrdiff_t>(start);
    std::vector<Value> batch(first, first + static_cast<std::ptrdiff_t>(count));
    if (fill && count < static_cast<size_t>(size)) {
      RETURN_IF_ERROR(
          runtime.heap.CheckRoom(static_cast<size_t>(std::min<int64_t>(size, INT32_MAX)) * sizeof(Value)));
      batch.resize(static_cast<size_t>(size), bound[1]);
    }
    batches.push_back(runtime.heap.List(std::move(batch)));
    start += count;
  }
  return runtime.heap.List(std::move(batches), ListFlavor::kGenerator);
}

}  // namespace paceline::jinja
