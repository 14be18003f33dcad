// What a template can call, and the objects only the interpreter makes: scopes, loops, bound functions.
//
// A native function sees the Runtime, the value it is bound to (`self`: a method's object, a filter's input)
// and its arguments; it reaches nothing else. That is the whole surface of a template towards the host.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/template/value.h"

namespace paceline::jinja {

class Runtime;
struct MacroDef;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> keyword;
};

using NativeFn = StatusOr<Value> (*)(Runtime& runtime, const Value& self, const CallArgs& args);
using TestFn = StatusOr<bool> (*)(Runtime& runtime, const Value& self, const CallArgs& args);

struct CallableObject final : Object {
  void Clear() override {
    self = Value();
    scope = Value();
  }
  std::string_view name;
  NativeFn native = nullptr;  // set, or `macro` is
  Value self;
  NativeFn (*attributes)(std::string_view name) = nullptr;  // of a cycler
  const MacroDef* macro = nullptr;
  Value scope;  // where the macro was defined: its free variables are looked up there
};

// Variables of one block. Names are the template's symbol numbers.
struct ScopeObject final : Object {
  void Clear() override {
    variables.clear();
    parent = Value();
  }
  Value* FindLocal(uint32_t symbol) {
    for (auto& [id, value] : variables) {
      if (id == symbol) return &value;
    }
    return nullptr;
  }
  std::vector<std::pair<uint32_t, Value>> variables;
  Value parent;
};

// `loop` inside a for body.
struct LoopObject final : Object {
  void Clear() override {
    items.clear();
    changed.clear();
  }
  std::vector<Value> items;
  size_t index0 = 0;
  size_t depth0 = 0;
  std::vector<Value> changed;  // last arguments of loop.changed()
  bool changed_called = false;
};

Value MakeNative(Heap& heap, std::string_view name, NativeFn native, Value self);
Value MakeMacro(Heap& heap, const MacroDef& macro, Value scope);

// Arguments in the order of `names`; Value::Absent() where one was not given. Errors name `function`.
StatusOr<std::vector<Value>> BindArgs(std::string_view function, const CallArgs& args,
                                      std::initializer_list<std::string_view> names, size_t required);

// The tables of what exists; null for an unknown name.
NativeFn FindFilter(std::string_view name);
TestFn FindTest(std::string_view name);
NativeFn FindGlobal(std::string_view name);
inline constexpr std::string_view kGlobalNames[] = {
    "raise_exception", "strftime_now", "namespace", "range", "dict", "cycler", "joiner"};
NativeFn FindStringMethod(std::string_view name);
NativeFn FindListMethod(std::string_view name);
NativeFn FindDictMethod(std::string_view name);

}  // namespace paceline::jinja
