// Filters that compare: sort, dictsort, unique, min, max, groupby; and sum.
#include <algorithm>
#include <numeric>

#include "common/text/template/filters.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

StatusOr<Value> CaseFolded(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_string()) return value;
  RETURN_IF_ERROR(runtime.Work(value.AsString().size()));
  return runtime.heap.String(ToLower(value.AsString()));
}

// What an item is compared by: the item, or its attribute; text without its case.
StatusOr<Value> SortKey(Runtime& runtime, const Value& item, const Value& attribute, bool case_sensitive) {
  RETURN_IF_ERROR(runtime.Step());
  if (attribute.is_absent() || attribute.is_none()) return CaseFolded(runtime, item, case_sensitive);
  ASSIGN_OR_RETURN(const Value value, GetPath(runtime, item, attribute));
  return CaseFolded(runtime, value, case_sensitive);
}

// For sort: "a,b" compares by a, then by b.
StatusOr<Value> MultiSortKey(Runtime& runtime, const Value& item, const Value& attribute,
                             bool case_sensitive) {
  if (!attribute.is_string() || attribute.AsString().find(',') == std::string_view::npos) {
    return SortKey(runtime, item, attribute, case_sensitive);
  }
  std::vector<Value> keys;
  std::string_view rest = attribute.AsString();
  while (true) {
    const size_t comma = rest.find(',');
    ASSIGN_OR_RETURN(Value key,
                     SortKey(runtime, item, runtime.heap.String(rest.substr(0, comma)), case_sensitive));
    keys.push_back(std::move(key));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return runtime.heap.List(std::move(keys));
}

struct Keyed {
  Value key;
  Value item;
};

// A stable merge sort: std::stable_sort cannot stop at a comparison that fails.
Status MergeSort(Runtime& runtime, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> merged(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t start = 0; start < items.size(); start += 2 * width) {
      const size_t middle = std::min(start + width, items.size());
      const size_t end = std::min(start + 2 * width, items.size());
      size_t left = start;
      size_t right = middle;
      for (size_t out = start; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          ASSIGN_OR_RETURN(const int order, Order(runtime, items[right].key, items[left].key));
          take_right = reverse ? order > 0 : order < 0;
        }
        merged[out] = std::move(items[take_right ? right++ : left++]);
      }
    }
    items.swap(merged);
  }
  return OkStatus();
}

StatusOr<Value> SortedList(Runtime& runtime, std::vector<Keyed> keyed, bool reverse) {
  RETURN_IF_ERROR(MergeSort(runtime, keyed, reverse));
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return runtime.heap.List(std::move(items));
}

StatusOr<Value> Extreme(Runtime& runtime, const Value& self, const CallArgs& args, bool maximum) {
  ASSIGN_OR_RETURN(const auto bound,
                   BindArgs(maximum ? "max" : "min", args, {"case_sensitive", "attribute"}, 0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  if (items.empty()) return Value();
  size_t best = 0;
  Value best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, items[i], bound[1], Truthy(bound[0])));
    if (i > 0) {
      ASSIGN_OR_RETURN(const int order, Order(runtime, key, best_key));
      if (maximum ? order <= 0 : order >= 0) continue;
    }
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

}  // namespace

StatusOr<Value> FilterSort(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("sort", args, {"reverse", "case_sensitive", "attribute"}, 0));
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    ASSIGN_OR_RETURN(Value key, MultiSortKey(runtime, item, bound[2], Truthy(bound[1])));
    keyed.push_back({std::move(key), std::move(item)});
  }
  return SortedList(runtime, std::move(keyed), Truthy(bound[0]));
}

StatusOr<Value> FilterDictSort(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("dictsort", args, {"case_sensitive", "by", "reverse"}, 0));
  if (self.is_undefined()) return UndefinedUse(self);
  if (!self.is_dict()) return InvalidArgumentError("dictsort needs a dict, found {}", TypeName(self));
  bool by_value = false;
  if (!bound[1].is_absent()) {
    ASSIGN_OR_RETURN(const std::string_view by, WantString(bound[1], "dictsort by"));
    if (by != "key" && by != "value") {
      return InvalidArgumentError("dictsort by must be key or value, found '{}'", by);
    }
    by_value = by == "value";
  }
  std::vector<Keyed> keyed;
  for (const DictEntry& entry : self.AsDict().entries) {
    ASSIGN_OR_RETURN(Value key,
                     SortKey(runtime, by_value ? entry.value : entry.key, Value::Absent(), Truthy(bound[0])));
    keyed.push_back({std::move(key), runtime.heap.Tuple({entry.key, entry.value})});
  }
  return SortedList(runtime, std::move(keyed), Truthy(bound[2]));
}

StatusOr<Value> FilterUnique(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("unique", args, {"case_sensitive", "attribute"}, 0));
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  const Value seen = runtime.heap.Dict();
  std::vector<Value> kept;
  for (Value& item : items) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, bound[1], Truthy(bound[0])));
    RETURN_IF_ERROR(PayForKey(runtime, seen.AsDict(), key));
    if (seen.AsDict().Find(key) != nullptr) continue;
    seen.AsDict().Set(std::move(key), Value::None());
    kept.push_back(std::move(item));
  }
  return runtime.heap.List(std::move(kept), ListFlavor::kGenerator);
}

StatusOr<Value> FilterMin(Runtime& runtime, const Value& self, const CallArgs& args) {
  return Extreme(runtime, self, args, false);
}

StatusOr<Value> FilterMax(Runtime& runtime, const Value& self, const CallArgs& args) {
  return Extreme(runtime, self, args, true);
}

StatusOr<Value> FilterSum(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("sum", args, {"attribute", "start"}, 0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, self));
  Value total = bound[1].is_absent() ? Value::Int(0) : bound[1];
  for (const Value& item : items) {
    RETURN_IF_ERROR(runtime.Step());
    Value term = item;
    if (!bound[0].is_absent() && !bound[0].is_none()) {
      ASSIGN_OR_RETURN(term, GetPath(runtime, item, bound[0]));
    }
    ASSIGN_OR_RETURN(total, Arithmetic(runtime, BinaryOp::kAdd, total, term));
  }
  return total;
}

StatusOr<Value> FilterGroupBy(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound,
                   BindArgs("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime, self));
  std::vector<Keyed> keyed;
  for (Value& item : items) {
    ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, bound[0], Truthy(bound[2])));
    if (key.is_undefined() && !bound[1].is_absent()) key = bound[1];
    keyed.push_back({std::move(key), std::move(item)});
  }
  RETURN_IF_ERROR(MergeSort(runtime, keyed, false));
  std::vector<Value> groups;
  for (size_t start = 0; start < keyed.size();) {
    std::vector<Value> members;
    size_t end = start;
    for (; end < keyed.size(); ++end) {
      ASSIGN_OR_RETURN(const bool same, Equal(runtime, keyed[start].key, keyed[end].key));
      if (!same) break;
      members.push_back(keyed[end].item);
    }
    // The group is named as its first member spells it, not by the folded key.
    ASSIGN_OR_RETURN(Value name, GetPath(runtime, members.front(), bound[0]));
    if (name.is_undefined() && !bound[1].is_absent()) name = bound[1];
    groups.push_back(runtime.heap.Tuple({std::move(name), runtime.heap.List(std::move(members))}));
    start = end;
  }
  return runtime.heap.List(std::move(groups));
}

}  // namespace paceline::jinja
