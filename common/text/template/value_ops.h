// Python's operators and conversions on template values. Where Python raises, these return INVALID_ARGUMENT.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/text/template/runtime.h"
#include "common/text/template/value.h"

namespace paceline::jinja {

std::string_view TypeName(const Value& value);
bool Truthy(const Value& value);

// The message for using an undefined value.
Status UndefinedUse(const Value& value);

// str(value); undefined is "".
StatusOr<std::string> ToText(Runtime& runtime, const Value& value);
// str(value) as a template string: strings are passed through, with their markup flag.
StatusOr<Value> ToString(Runtime& runtime, const Value& value);
StatusOr<std::string> Repr(Runtime& runtime, const Value& value);
std::string FloatRepr(double value);
std::string EscapeHtml(std::string_view text);

// Equality of dict keys (scalars only).
bool KeysEqual(const Value& a, const Value& b);
Status CheckHashable(const Value& key);
// The same, and pays for the look-up that follows: keys that are not strings are searched one by one.
Status PayForKey(Runtime& runtime, const DictObject& dict, const Value& key);
StatusOr<bool> Equal(Runtime& runtime, const Value& a, const Value& b);
// Negative, zero, positive. An error for kinds Python does not order.
StatusOr<int> Order(Runtime& runtime, const Value& a, const Value& b);
StatusOr<bool> Contains(Runtime& runtime, const Value& container, const Value& item);

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
StatusOr<Value> Arithmetic(Runtime& runtime, BinaryOp op, const Value& a, const Value& b);
StatusOr<Value> Negate(const Value& value);

// Items of an iterable: characters of a string, keys of a dict, nothing for undefined.
StatusOr<std::vector<Value>> Iterate(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// len(); nullopt where Python has none.
std::optional<size_t> Length(const Value& value);

// value.name: a method first, then the key. value[key]: the element first, then a method of that name.
// Both give undefined for what is missing; on an undefined value they fail.
StatusOr<Value> GetAttribute(Runtime& runtime, const Value& value, const std::string& name);
StatusOr<Value> GetItem(Runtime& runtime, const Value& value, const Value& key);
// value["a"]["b"][0] for the dotted path "a.b.0" of map(attribute=...) and its kin. `otherwise`, unless
// absent or None, stands in for each undefined step.
StatusOr<Value> GetPath(Runtime& runtime, const Value& value, const Value& path,
                        const Value& otherwise = Value::Absent());

struct SliceBounds {
  std::optional<int64_t> start;
  std::optional<int64_t> stop;
  std::optional<int64_t> step;
};
StatusOr<Value> Slice(Runtime& runtime, const Value& value, const SliceBounds& bounds);

// Text argument of a filter or method; anything but a string is an error naming `what`.
StatusOr<std::string_view> WantString(const Value& value, std::string_view what);
StatusOr<int64_t> WantInt(const Value& value, std::string_view what);

}  // namespace paceline::jinja
