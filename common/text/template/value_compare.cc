// Equality, order and membership, as Python defines them.
#include <algorithm>

#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

bool NumbersEqual(const Value& a, const Value& b) {
  if (a.is_float() || b.is_float()) return a.AsDouble() == b.AsDouble();
  return a.AsInt() == b.AsInt();
}

class Comparer {
 public:
  explicit Comparer(Runtime& runtime) : runtime_(runtime) {}

  StatusOr<bool> Equal(const Value& a, const Value& b) {
    DepthGuard guard(depth_, kValueDepthMax);
    if (!guard.fits()) return NestedTooDeep();
    RETURN_IF_ERROR(runtime_.ExpressionNode());
    if (a.is_number() && b.is_number()) return NumbersEqual(a, b);
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case Kind::kUndefined:
      case Kind::kNone:
        return true;
      case Kind::kString:
        RETURN_IF_ERROR(runtime_.Work(std::min(a.AsString().size(), b.AsString().size())));
        return a.AsString() == b.AsString();
      case Kind::kList:
        return ListsEqual(a, b);
      case Kind::kDict:
        return DictsEqual(a, b);
      default:
        return a.object() == b.object();
    }
  }

  StatusOr<int> Order(const Value& a, const Value& b) {
    DepthGuard guard(depth_, kValueDepthMax);
    if (!guard.fits()) return NestedTooDeep();
    RETURN_IF_ERROR(runtime_.ExpressionNode());
    if (a.is_undefined()) return UndefinedUse(a);
    if (b.is_undefined()) return UndefinedUse(b);
    if (a.is_number() && b.is_number()) {
      if (!a.is_float() && !b.is_float()) return Sign(a.AsInt(), b.AsInt());
      return Sign(a.AsDouble(), b.AsDouble());
    }
    if (a.is_string() && b.is_string()) {
      RETURN_IF_ERROR(runtime_.Work(std::min(a.AsString().size(), b.AsString().size())));
      return a.AsString().compare(b.AsString());  // UTF-8 orders as code points do
    }
    if (a.is_list() && b.is_list() && a.AsList().flavor == b.AsList().flavor) return OrderLists(a, b);
    return InvalidArgumentError("'{}' and '{}' have no order", TypeName(a), TypeName(b));
  }

 private:
  template <typename T>
  static int Sign(T a, T b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  StatusOr<bool> ListsEqual(const Value& a, const Value& b) {
    if (a.object() == b.object()) return true;
    const auto& x = a.AsList();
    const auto& y = b.AsList();
    if (x.flavor != y.flavor || x.items.size() != y.items.size()) return false;
    for (size_t i = 0; i < x.items.size(); ++i) {
      ASSIGN_OR_RETURN(const bool equal, Equal(x.items[i], y.items[i]));
      if (!equal) return false;
    }
    return true;
  }

  StatusOr<bool> DictsEqual(const Value& a, const Value& b) {
    if (a.object() == b.object()) return true;
    const auto& x = a.AsDict();
    const auto& y = b.AsDict();
    if (x.entries.size() != y.entries.size()) return false;
    for (const DictEntry& entry : x.entries) {
      RETURN_IF_ERROR(PayForKey(runtime_, y, entry.key));
      const Value* other = y.Find(entry.key);
      if (other == nullptr) return false;
      ASSIGN_OR_RETURN(const bool equal, Equal(entry.value, *other));
      if (!equal) return false;
    }
    return true;
  }

  StatusOr<int> OrderLists(const Value& a, const Value& b) {
    const auto& x = a.AsList().items;
    const auto& y = b.AsList().items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      ASSIGN_OR_RETURN(const bool equal, Equal(x[i], y[i]));
      if (!equal) return Order(x[i], y[i]);
    }
    return Sign(x.size(), y.size());
  }

  Runtime& runtime_;
  uint32_t depth_ = 0;
};

}  // namespace

bool KeysEqual(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return NumbersEqual(a, b);
  if (a.kind() != b.kind()) return false;
  if (a.is_string()) return a.AsString() == b.AsString();
  return true;  // None, undefined
}

Status CheckHashable(const Value& key) {
  if (key.is_string() || key.is_number() || key.is_none() || key.is_undefined()) return OkStatus();
  return InvalidArgumentError("a dict key must be a string, number, bool or None, found {}", TypeName(key));
}

Status PayForKey(Runtime& runtime, const DictObject& dict, const Value& key) {
  RETURN_IF_ERROR(CheckHashable(key));
  if (key.is_string()) return OkStatus();
  return runtime.Work(dict.entries.size() * sizeof(DictEntry));
}

StatusOr<bool> Equal(Runtime& runtime, const Value& a, const Value& b) {
  return Comparer(runtime).Equal(a, b);
}

StatusOr<int> Order(Runtime& runtime, const Value& a, const Value& b) {
  return Comparer(runtime).Order(a, b);
}

StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString: {
      ASSIGN_OR_RETURN(const std::string_view needle, WantString(item, "left side of 'in' a string"));
      RETURN_IF_ERROR(runtime.Work(container.AsString().size()));
      return container.AsString().find(needle) != std::string_view::npos;
    }
    case Kind::kList:
      for (const Value& element : container.AsList().items) {
        ASSIGN_OR_RETURN(const bool equal, Equal(runtime, element, item));
        if (equal) return true;
      }
      return false;
    case Kind::kDict:
      RETURN_IF_ERROR(PayForKey(runtime, container.AsDict(), item));
      return container.AsDict().Find(item) != nullptr;
    default:
      return InvalidArgumentError("'in' needs a string, list or dict on its right, found {}",
                                  TypeName(container));
  }
}

}  // namespace paceline::jinja
