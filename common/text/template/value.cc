#include "common/text/template/value.h"

#include "common/text/template/callable.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

constexpr size_t kNotFound = static_cast<size_t>(-1);
constexpr size_t kLinearEntriesMax = 8;  // below this a scan beats building an index

const std::string kAbsentName = "argument";

}  // namespace

Value Value::Undefined(const std::string* name) {
  Value v;
  v.rep_.name = name;
  return v;
}

Value Value::Absent() { return Undefined(&kAbsentName); }

Value Value::None() {
  Value v;
  v.kind_ = Kind::kNone;
  return v;
}

Value Value::Bool(bool b) {
  Value v;
  v.kind_ = Kind::kBool;
  v.rep_.b = b;
  return v;
}

Value Value::Int(int64_t i) {
  Value v;
  v.kind_ = Kind::kInt;
  v.rep_.i = i;
  return v;
}

Value Value::Float(double d) {
  Value v;
  v.kind_ = Kind::kFloat;
  v.rep_.d = d;
  return v;
}

Value Value::OfObject(Kind kind, Object* object) {
  Value v;
  v.kind_ = kind;
  v.rep_.object = object;
  return v;
}

bool Value::is_absent() const { return is_undefined() && rep_.name == &kAbsentName; }

std::string_view Value::AsString() const { return static_cast<const StringObject*>(rep_.object)->text; }
ListObject& Value::AsList() const { return *static_cast<ListObject*>(rep_.object); }
DictObject& Value::AsDict() const { return *static_cast<DictObject*>(rep_.object); }
CallableObject& Value::AsCallable() const { return *static_cast<CallableObject*>(rep_.object); }
LoopObject& Value::AsLoop() const { return *static_cast<LoopObject*>(rep_.object); }
ScopeObject& Value::AsScope() const { return *static_cast<ScopeObject*>(rep_.object); }

std::string_view Value::undefined_name() const {
  return is_undefined() && rep_.name != nullptr ? std::string_view(*rep_.name) : std::string_view();
}

void DictObject::Clear() {
  index_.clear();
  index_valid_ = false;
  entries.clear();
}

size_t DictObject::IndexOfString(std::string_view key) const {
  if (entries.size() <= kLinearEntriesMax) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].key.is_string() && entries[i].key.AsString() == key) return i;
    }
    return kNotFound;
  }
  if (!index_valid_) {
    index_.clear();
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].key.is_string()) index_.emplace(entries[i].key.AsString(), i);
    }
    index_valid_ = true;
  }
  const auto it = index_.find(key);
  return it == index_.end() ? kNotFound : it->second;
}

size_t DictObject::IndexOf(const Value& key) const {
  if (key.is_string()) return IndexOfString(key.AsString());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].key.is_string() && KeysEqual(entries[i].key, key)) return i;
  }
  return kNotFound;
}

const Value* DictObject::FindString(std::string_view key) const {
  const size_t i = IndexOfString(key);
  return i == kNotFound ? nullptr : &entries[i].value;
}

const Value* DictObject::Find(const Value& key) const {
  const size_t i = IndexOf(key);
  return i == kNotFound ? nullptr : &entries[i].value;
}

void DictObject::SetString(std::string_view key, Value value) {
  const size_t i = IndexOfString(key);
  if (i != kNotFound) {
    entries[i].value = std::move(value);
    return;
  }
  Set(heap->String(key), std::move(value));
}

void DictObject::Set(Value key, Value value) {
  const size_t i = IndexOf(key);
  if (i != kNotFound) {
    entries[i].value = std::move(value);
    return;
  }
  entries.push_back({std::move(key), std::move(value)});
  heap->Charge(*this, sizeof(DictEntry));
  if (index_valid_ && entries.back().key.is_string()) {
    index_.emplace(entries.back().key.AsString(), entries.size() - 1);
  }
}

bool DictObject::Erase(const Value& key) {
  const size_t i = IndexOf(key);
  if (i == kNotFound) return false;
  index_.clear();  // it views the key that goes now
  index_valid_ = false;
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
  return true;
}

Heap::~Heap() {
  // Cycles keep their objects alive, so nothing is freed by count here: first every reference is dropped
  // with deletion off, then all objects go.
  closing_ = true;
  for (Object* o = live_; o != nullptr; o = o->next) o->Clear();
  while (live_ != nullptr) {
    Object* next = live_->next;
    delete live_;
    live_ = next;
  }
}

void Heap::Link(Object* object, size_t bytes) {
  object->heap = this;
  object->bytes = bytes;
  object->next = live_;
  if (live_ != nullptr) live_->previous = object;
  live_ = object;
  bytes_live_ += bytes;
}

void Heap::Destroy(Object* object) {
  if (closing_) return;
  if (object->previous != nullptr) object->previous->next = object->next;
  if (object->next != nullptr) object->next->previous = object->previous;
  if (live_ == object) live_ = object->next;
  bytes_live_ -= object->bytes;
  object->next = doomed_;
  doomed_ = object;
  if (draining_) return;  // an outer call deletes it: nesting depth must not become stack depth
  draining_ = true;
  while (doomed_ != nullptr) {
    Object* next = doomed_;
    doomed_ = next->next;
    delete next;
  }
  draining_ = false;
}

void Heap::Charge(Object& object, size_t bytes) {
  object.bytes += bytes;
  bytes_live_ += bytes;
}

Value Heap::String(std::string text) {
  auto* object = new StringObject;
  object->text = std::move(text);
  Link(object, sizeof(StringObject) + object->text.capacity());
  return Value::OfObject(Kind::kString, object);
}

Value Heap::List(std::vector<Value> items, ListFlavor flavor) {
  auto* object = new ListObject;
  object->items = std::move(items);
  object->flavor = flavor;
  Link(object, sizeof(ListObject) + object->items.capacity() * sizeof(Value));
  return Value::OfObject(Kind::kList, object);
}

Value Heap::Dict() {
  auto* object = new DictObject;
  Link(object, sizeof(DictObject));
  return Value::OfObject(Kind::kDict, object);
}

Value Heap::Namespace() {
  auto* object = new DictObject;
  Link(object, sizeof(DictObject));
  return Value::OfObject(Kind::kNamespace, object);
}

Status Heap::CheckRoom(size_t bytes) const {
  if (bytes <= memory_bytes_max_ && bytes_live_ <= memory_bytes_max_ - bytes) return OkStatus();
  return ResourceExhaustedError("template values need {} bytes on top of {}, memory_bytes_max is {}", bytes,
                                bytes_live_, memory_bytes_max_);
}

Status Heap::CheckStringLength(size_t bytes) const {
  if (bytes <= string_bytes_max_) return OkStatus();
  return ResourceExhaustedError("template text of {} bytes exceeds output_bytes_max {}", bytes,
                                string_bytes_max_);
}

void TextBuilder::AppendRepeated(char c, size_t count) {
  if (count > heap_.string_bytes_max() - text_.size()) overflow_ = true;
  if (!overflow_) text_.append(count, c);
}

StatusOr<std::string> TextBuilder::FinishText() {
  if (overflow_) {
    return ResourceExhaustedError("template text exceeds output_bytes_max {}", heap_.string_bytes_max());
  }
  return std::move(text_);
}

StatusOr<Value> TextBuilder::Finish() {
  ASSIGN_OR_RETURN(std::string text, FinishText());
  return heap_.String(std::move(text));
}

}  // namespace paceline::jinja
