// Values of a running template: Python's None, bool, int, float, str, list, dict, plus Jinja's undefined.
//
// A Heap owns every string and container of one render and counts their bytes. Values are counted references
// into it; they are not shared between threads, and none outlives its Heap. Cycles (a list appended to
// itself) are freed with the Heap. Destruction never recurses, however deep the nesting.
//
//   Heap heap(64 << 20, 8 << 20);
//   Value list = heap.List({Value::Int(1), heap.String("two")});
//   list.AsList().items[1].AsString();   // "two"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"

namespace paceline::jinja {

class Heap;
struct Object;
struct StringObject;
struct ListObject;
struct DictObject;
struct CallableObject;
struct LoopObject;
struct ScopeObject;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,  // every sequence; ListObject::flavor tells list, tuple, view and generator apart
  kDict,
  kNamespace,
  kCallable,
  kLoop,
  kScope,  // never seen by a template: the interpreter's variable scopes
};

class Value {
 public:
  Value() = default;  // undefined, of no known name
  Value(const Value& other) : kind_(other.kind_), markup_(other.markup_), rep_(other.rep_) { Ref(); }
  Value(Value&& other) noexcept : kind_(other.kind_), markup_(other.markup_), rep_(other.rep_) {
    other.kind_ = Kind::kUndefined;
    other.rep_.name = nullptr;
  }
  Value& operator=(Value other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(markup_, other.markup_);
    std::swap(rep_, other.rep_);
    return *this;
  }
  ~Value() { Unref(); }

  // `name` is what was looked up and not found; it outlives the render (the template owns it).
  static Value Undefined(const std::string* name);
  static Value Absent();  // an argument that was not given
  static Value None();
  static Value Bool(bool b);
  static Value Int(int64_t i);
  static Value Float(double d);
  static Value OfObject(Kind kind, Object* object);  // takes over one reference

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_absent() const;
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_callable() const { return kind_ == Kind::kCallable; }

  // Text that `safe` or `escape` marked: adding to it escapes the other side, as in Python's markupsafe.
  bool is_markup() const { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }

  int64_t AsInt() const { return kind_ == Kind::kBool ? (rep_.b ? 1 : 0) : rep_.i; }
  bool AsBool() const { return rep_.b; }
  double AsDouble() const { return kind_ == Kind::kFloat ? rep_.d : static_cast<double>(AsInt()); }
  std::string_view AsString() const;
  ListObject& AsList() const;
  DictObject& AsDict() const;  // of a dict or a namespace
  CallableObject& AsCallable() const;
  LoopObject& AsLoop() const;
  ScopeObject& AsScope() const;
  const Object* object() const { return holds_object() ? rep_.object : nullptr; }

  // What an undefined value was looked up as, for messages; empty if unknown.
  std::string_view undefined_name() const;

 private:
  bool holds_object() const { return kind_ >= Kind::kString; }
  void Ref() const;
  void Unref();

  Kind kind_ = Kind::kUndefined;
  bool markup_ = false;
  union Rep {
    const std::string* name;
    bool b;
    int64_t i;
    double d;
    Object* object;
  } rep_ = {nullptr};
};

// Base of what lives in a Heap. Only Heap and Value touch these fields.
struct Object {
  virtual ~Object() = default;
  virtual void Clear() {}  // drops the references it holds

  Heap* heap = nullptr;
  uint32_t refs = 1;
  size_t bytes = 0;  // charged to the heap
  Object* previous = nullptr;
  Object* next = nullptr;
};

struct StringObject final : Object {
  std::string text;
};

enum class ListFlavor : uint8_t { kList, kTuple, kView, kGenerator };

struct ListObject final : Object {
  void Clear() override { items.clear(); }
  std::vector<Value> items;
  ListFlavor flavor = ListFlavor::kList;
};

struct DictEntry {
  Value key;
  Value value;
};

// Insertion order is kept. String keys get a hash index once there are more than a few.
struct DictObject final : Object {
  void Clear() override;
  const Value* FindString(std::string_view key) const;
  void SetString(std::string_view key, Value value);  // creates or replaces
  // Keys of any hashable kind; null if absent.
  const Value* Find(const Value& key) const;
  void Set(Value key, Value value);
  bool Erase(const Value& key);

  std::vector<DictEntry> entries;

 private:
  size_t IndexOf(const Value& key) const;
  size_t IndexOfString(std::string_view key) const;
  mutable absl::flat_hash_map<std::string_view, size_t> index_;  // views into the keys' StringObjects
  mutable bool index_valid_ = false;
};

// Owns the values of one render. Allocation does not fail: it is counted, and CheckRoom / status() say when
// the limit is passed; whoever makes something large asks CheckRoom first.
class Heap {
 public:
  Heap(size_t memory_bytes_max, size_t string_bytes_max)
      : memory_bytes_max_(memory_bytes_max), string_bytes_max_(string_bytes_max) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  Value String(std::string text);
  Value String(std::string_view text) { return String(std::string(text)); }
  Value String(const char* text) { return String(std::string(text)); }
  Value List(std::vector<Value> items, ListFlavor flavor = ListFlavor::kList);
  Value Tuple(std::vector<Value> items) { return List(std::move(items), ListFlavor::kTuple); }
  Value Dict();
  Value Namespace();

  // Takes ownership of `object`, whose reference count is 1.
  template <typename T>
  T* Adopt(T* object, size_t bytes) {
    Link(object, bytes);
    return object;
  }

  // Containers that grew in place report it.
  void Charge(Object& object, size_t bytes);

  // Excludes what is live now (the request's context) from the limit.
  void SetBaseline() { memory_bytes_max_ += bytes_live_; }

  Status CheckRoom(size_t bytes) const;
  Status CheckStringLength(size_t bytes) const;
  Status status() const { return CheckRoom(0); }
  bool exhausted() const { return bytes_live_ > memory_bytes_max_; }
  size_t string_bytes_max() const { return string_bytes_max_; }
  size_t bytes_live() const { return bytes_live_; }

 private:
  friend class Value;
  void Link(Object* object, size_t bytes);
  void Destroy(Object* object);

  size_t memory_bytes_max_;
  const size_t string_bytes_max_;
  size_t bytes_live_ = 0;
  Object* live_ = nullptr;    // every object, doubly linked
  Object* doomed_ = nullptr;  // unreferenced, waiting to be deleted (singly linked by `next`)
  bool draining_ = false;
  bool closing_ = false;
};

inline void Value::Ref() const {
  if (holds_object()) ++rep_.object->refs;
}

inline void Value::Unref() {
  if (holds_object() && --rep_.object->refs == 0) rep_.object->heap->Destroy(rep_.object);
}

// Builds one string under the heap's length limit: text beyond the limit is dropped and Finish() says so.
class TextBuilder {
 public:
  explicit TextBuilder(Heap& heap) : heap_(heap) {}
  void Append(std::string_view text) {
    if (text.size() > heap_.string_bytes_max() - text_.size()) overflow_ = true;
    if (!overflow_) text_.append(text);
  }
  void Append(char c) { Append(std::string_view(&c, 1)); }
  void AppendRepeated(char c, size_t count);
  bool overflow() const { return overflow_; }
  size_t size() const { return text_.size(); }
  StatusOr<std::string> FinishText();
  StatusOr<Value> Finish();

 private:
  Heap& heap_;
  std::string text_;
  bool overflow_ = false;
};

}  // namespace paceline::jinja
