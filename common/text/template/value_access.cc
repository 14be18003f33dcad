// Iteration, attributes, items and slices.
#include <algorithm>
#include <limits>

#include "common/text/template/callable.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

// A one-character string costs this much on the heap, list slot included.
constexpr size_t kCharacterBytes = sizeof(StringObject) + sizeof(Value) + 16;

StatusOr<std::vector<Value>> Characters(Runtime& runtime, std::string_view text) {
  RETURN_IF_ERROR(runtime.Work(text.size()));
  RETURN_IF_ERROR(runtime.heap.CheckRoom(CodePointCount(text) * kCharacterBytes));
  std::vector<Value> items;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    DecodeNext(text, pos);
    items.push_back(runtime.heap.String(text.substr(start, pos - start)));
  }
  return items;
}

NativeFn FindMethod(const Value& value, std::string_view name) {
  if (value.is_string()) return FindStringMethod(name);
  if (value.is_list()) return FindListMethod(name);
  if (value.is_dict()) return FindDictMethod(name);
  return nullptr;
}

StatusOr<Value> LoopChanged(Runtime& runtime, const Value& self, const CallArgs& args) {
  LoopObject& loop = self.AsLoop();
  bool same = loop.changed_called && loop.changed.size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    ASSIGN_OR_RETURN(same, Equal(runtime, loop.changed[i], args.positional[i]));
  }
  loop.changed_called = true;
  loop.changed = args.positional;
  return Value::Bool(!same);
}

StatusOr<Value> LoopCycle(Runtime&, const Value& self, const CallArgs& args) {
  if (args.positional.empty()) return InvalidArgumentError("loop.cycle() needs at least one item");
  return args.positional[self.AsLoop().index0 % args.positional.size()];
}

Value LoopAttribute(Heap& heap, const Value& value, const std::string& name) {
  const LoopObject& loop = value.AsLoop();
  const auto number = [](size_t n) { return Value::Int(static_cast<int64_t>(n)); };
  const size_t length = loop.items.size();
  if (name == "index") return number(loop.index0 + 1);
  if (name == "index0") return number(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(loop.index0 + 1 == length);
  if (name == "length") return number(length);
  if (name == "revindex") return number(length - loop.index0);
  if (name == "revindex0") return number(length - loop.index0 - 1);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "depth0") return number(loop.depth0);
  if (name == "previtem" && loop.index0 > 0) return loop.items[loop.index0 - 1];
  if (name == "nextitem" && loop.index0 + 1 < length) return loop.items[loop.index0 + 1];
  if (name == "changed") return MakeNative(heap, "loop.changed", LoopChanged, value);
  if (name == "cycle") return MakeNative(heap, "loop.cycle", LoopCycle, value);
  return Value::Undefined(&name);
}

StatusOr<Value> CharacterAt(Runtime& runtime, std::string_view text, int64_t index) {
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const auto count = static_cast<int64_t>(CodePointCount(text));
  if (index < 0) index += count;
  if (index < 0 || index >= count) return Value();
  size_t pos = 0;
  for (int64_t i = 0; i < index; ++i) DecodeNext(text, pos);
  const size_t start = pos;
  DecodeNext(text, pos);
  return runtime.heap.String(text.substr(start, pos - start));
}

// Going through text character by character costs about this many times a copy of its bytes.
constexpr uint64_t kDecodeCost = 8;

struct ResolvedSlice {
  int64_t start = 0;
  int64_t step = 1;
  size_t count = 0;
};

// Python's slice.indices().
StatusOr<ResolvedSlice> Resolve(const SliceBounds& bounds, size_t length) {
  const auto len = static_cast<int64_t>(length);
  const int64_t step = bounds.step.value_or(1);
  if (step == 0) return InvalidArgumentError("slice step must not be zero");
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? len - 1 : len;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound.has_value()) return otherwise;
    return std::clamp(*bound < 0 ? *bound + len : *bound, lowest, highest);
  };
  const int64_t start = clamp(bounds.start, step < 0 ? highest : lowest);
  const int64_t stop = clamp(bounds.stop, step < 0 ? lowest : highest);
  ResolvedSlice out{start, step, 0};
  const int64_t span = step > 0 ? stop - start : start - stop;
  if (span > 0) {
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
    out.count = static_cast<size_t>((static_cast<uint64_t>(span) - 1) / stride + 1);
  }
  return out;
}

// Byte offset of the code point with index `count`.
size_t OffsetOf(std::string_view text, size_t count) {
  size_t pos = 0;
  for (size_t i = 0; i < count; ++i) DecodeNext(text, pos);
  return pos;
}

StatusOr<Value> SliceText(Runtime& runtime, std::string_view text, const SliceBounds& bounds) {
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const bool ascii = IsAscii(text);
  const size_t length = ascii ? text.size() : CodePointCount(text);
  ASSIGN_OR_RETURN(const ResolvedSlice slice, Resolve(bounds, length));
  if (slice.count == 0) return runtime.heap.String("");
  const auto start = static_cast<size_t>(slice.start);
  if (slice.step == 1) {
    const size_t first = ascii ? start : OffsetOf(text, start);
    const size_t bytes = ascii ? slice.count : OffsetOf(text.substr(first), slice.count);
    return runtime.heap.String(text.substr(first, bytes));
  }
  RETURN_IF_ERROR(runtime.Work(text.size() * kDecodeCost));
  const std::vector<char32_t> code_points = Decode(text);
  std::string out;
  int64_t at = slice.start;
  for (size_t i = 0; i < slice.count; ++i) {
    AppendUtf8(out, code_points[static_cast<size_t>(at)]);
    if (i + 1 < slice.count) at += slice.step;  // one step further could overflow
  }
  return runtime.heap.String(std::move(out));
}

}  // namespace

bool IsIterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_list() || value.is_dict() ||
         value.kind() == Kind::kLoop;
}

std::optional<size_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CodePointCount(value.AsString());
    case Kind::kList:
      if (value.AsList().flavor == ListFlavor::kGenerator) return std::nullopt;
      return value.AsList().items.size();
    case Kind::kDict:
      return value.AsDict().entries.size();
    case Kind::kLoop:
      return value.AsLoop().items.size();
    default:
      return std::nullopt;
  }
}

StatusOr<std::vector<Value>> Iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return std::vector<Value>();
    case Kind::kString:
      return Characters(runtime, value.AsString());
    case Kind::kList:
      RETURN_IF_ERROR(runtime.Work(value.AsList().items.size() * sizeof(Value)));
      return value.AsList().items;
    case Kind::kDict: {
      std::vector<Value> keys;
      RETURN_IF_ERROR(runtime.Work(value.AsDict().entries.size() * sizeof(Value)));
      for (const DictEntry& entry : value.AsDict().entries) keys.push_back(entry.key);
      return keys;
    }
    default:
      return InvalidArgumentError("'{}' cannot be iterated", TypeName(value));
  }
}

StatusOr<Value> GetAttribute(Runtime& runtime, const Value& value, const std::string& name) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return UndefinedUse(value);
    case Kind::kNamespace: {
      const Value* found = value.AsDict().FindString(name);
      return found != nullptr ? *found : Value::Undefined(&name);
    }
    case Kind::kLoop:
      return LoopAttribute(runtime.heap, value, name);
    case Kind::kCallable: {
      const CallableObject& callable = value.AsCallable();
      const NativeFn method = callable.attributes != nullptr ? callable.attributes(name) : nullptr;
      if (method == nullptr) return Value::Undefined(&name);
      if (name == "current") return method(runtime, callable.self, {});  // the one property among them
      return MakeNative(runtime.heap, name, method, callable.self);
    }
    default:
      break;
  }
  if (const NativeFn method = FindMethod(value, name); method != nullptr) {
    return MakeNative(runtime.heap, name, method, value);
  }
  if (value.is_dict()) {
    if (const Value* found = value.AsDict().FindString(name); found != nullptr) return *found;
  }
  return Value::Undefined(&name);
}

StatusOr<Value> GetItem(Runtime& runtime, const Value& value, const Value& key) {
  if (value.is_undefined()) return UndefinedUse(value);
  if (value.is_dict()) {
    if (CheckHashable(key).ok()) {
      RETURN_IF_ERROR(PayForKey(runtime, value.AsDict(), key));
      if (const Value* found = value.AsDict().Find(key); found != nullptr) return *found;
    }
  } else if (key.is_integral() && value.is_list()) {
    const ListObject& list = value.AsList();
    const auto count = static_cast<int64_t>(list.items.size());
    const bool indexed = list.flavor == ListFlavor::kList || list.flavor == ListFlavor::kTuple;
    const int64_t index = key.AsInt() < 0 ? key.AsInt() + count : key.AsInt();
    return indexed && index >= 0 && index < count ? list.items[static_cast<size_t>(index)] : Value();
  } else if (key.is_integral() && value.is_string()) {
    return CharacterAt(runtime, value.AsString(), key.AsInt());
  }
  if (!key.is_string()) return Value();
  const std::string_view name = key.AsString();
  if (const NativeFn method = FindMethod(value, name); method != nullptr) {
    return MakeNative(runtime.heap, "method", method, value);
  }
  if (value.kind() == Kind::kNamespace || value.kind() == Kind::kLoop) {
    ASSIGN_OR_RETURN(Value found, GetAttribute(runtime, value, std::string(name)));
    return found.is_undefined() ? Value() : found;  // its name would point to a temporary
  }
  return Value();
}

StatusOr<Value> GetPath(Runtime& runtime, const Value& value, const Value& path, const Value& otherwise) {
  const bool replace = !otherwise.is_absent() && !otherwise.is_none();
  const auto step = [&](const Value& from, const Value& key) -> StatusOr<Value> {
    ASSIGN_OR_RETURN(Value item, GetItem(runtime, from, key));
    return item.is_undefined() && replace ? otherwise : item;
  };
  if (path.is_integral()) return step(value, path);
  ASSIGN_OR_RETURN(std::string_view rest, WantString(path, "attribute"));
  Value current = value;
  for (bool more = true; more;) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    more = dot != std::string_view::npos;
    if (more) rest.remove_prefix(dot + 1);
    const bool digits = !part.empty() && part.size() < 10 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const Value key = digits ? Value::Int(std::stoll(std::string(part))) : runtime.heap.String(part);
    ASSIGN_OR_RETURN(current, step(current, key));
  }
  return current;
}

StatusOr<Value> Slice(Runtime& runtime, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) return UndefinedUse(value);
  if (value.is_string()) {
    ASSIGN_OR_RETURN(Value text, SliceText(runtime, value.AsString(), bounds));
    text.set_markup(value.is_markup());
    return text;
  }
  if (!value.is_list() ||
      (value.AsList().flavor != ListFlavor::kList && value.AsList().flavor != ListFlavor::kTuple)) {
    return Value();
  }
  const ListObject& list = value.AsList();
  ASSIGN_OR_RETURN(const ResolvedSlice slice, Resolve(bounds, list.items.size()));
  RETURN_IF_ERROR(runtime.Work(slice.count * sizeof(Value)));
  RETURN_IF_ERROR(runtime.heap.CheckRoom(slice.count * sizeof(Value)));
  std::vector<Value> items;
  items.reserve(slice.count);
  int64_t at = slice.start;
  for (size_t i = 0; i < slice.count; ++i) {
    items.push_back(list.items[static_cast<size_t>(at)]);
    if (i + 1 < slice.count) at += slice.step;
  }
  return runtime.heap.List(std::move(items), list.flavor);
}

}  // namespace paceline::jinja
