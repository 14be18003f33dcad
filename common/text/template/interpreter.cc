#include "common/text/template/interpreter.h"

#include <nlohmann/json.hpp>

#include "common/text/template/json_value.h"

namespace paceline::jinja {

// Makes `scope` the innermost one for as long as this lives.
class Interpreter::ScopeSwap {
 public:
  ScopeSwap(Interpreter& interpreter, Value scope)
      : interpreter_(interpreter), saved_(std::move(interpreter.scope_)) {
    interpreter_.scope_ = std::move(scope);
  }
  ~ScopeSwap() { interpreter_.scope_ = std::move(saved_); }
  ScopeSwap(const ScopeSwap&) = delete;
  ScopeSwap& operator=(const ScopeSwap&) = delete;

 private:
  Interpreter& interpreter_;
  Value saved_;
};

Interpreter::Interpreter(const Template& source, Runtime& runtime)
    : source_(source),
      runtime_(runtime),
      globals_(source.symbols.size()),
      defined_(source.symbols.size(), false) {}

StatusOr<std::string> Interpreter::Run(const nlohmann::ordered_json& context) {
  RETURN_IF_ERROR(LoadContext(context));
  std::string output;
  out_ = &output;
  StatusOr<Flow> flow = ExecBody(source_.body);
  if (flow.ok()) return output;
  // The template's own refusal is for the user; everything else is for who maintains the template.
  if (runtime_.raised) return flow.status();
  return Annotate(flow.status(), fmt::format("chat template line {}", line_));
}

Status Interpreter::LoadContext(const nlohmann::ordered_json& context) {
  if (!context.is_object()) return InvalidArgumentError("the context of a chat template must be an object");
  for (const std::string_view name : kGlobalNames) {
    uint32_t symbol = 0;
    if (!source_.symbols.Find(name, symbol)) continue;
    globals_[symbol] = MakeNative(runtime_.heap, name, FindGlobal(name), Value());
    defined_[symbol] = true;
  }
  for (auto it = context.begin(); it != context.end(); ++it) {
    uint32_t symbol = 0;
    if (!source_.symbols.Find(it.key(), symbol)) continue;  // never asked for, so not converted
    ASSIGN_OR_RETURN(globals_[symbol], FromJson(runtime_.heap, it.value()));
    defined_[symbol] = true;
  }
  runtime_.heap.SetBaseline();
  return OkStatus();
}

StatusOr<Interpreter::Flow> Interpreter::ExecBody(const Body& body) {
  DepthGuard guard(depth_, runtime_.depth_max());
  if (!guard.fits()) {
    return ResourceExhaustedError("template calls nest deeper than depth_max {}", runtime_.depth_max());
  }
  for (const Statement& statement : body) {
    RETURN_IF_ERROR(runtime_.Step());
    ASSIGN_OR_RETURN(const Flow flow, Exec(statement));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

StatusOr<Interpreter::Flow> Interpreter::Exec(const Statement& statement) {
  line_ = statement.line;
  Flow flow = Flow::kNormal;
  switch (statement.kind) {
    case StatementKind::kText:
      RETURN_IF_ERROR(Emit(statement.text));
      return flow;
    case StatementKind::kPrint: {
      ASSIGN_OR_RETURN(const Value value, Eval(*statement.value));
      RETURN_IF_ERROR(EmitValue(value));
      return flow;
    }
    case StatementKind::kSet: {
      ASSIGN_OR_RETURN(const Value value, Eval(*statement.value));
      RETURN_IF_ERROR(Assign(*statement.target, value));
      return flow;
    }
    case StatementKind::kSetBlock: {
      ASSIGN_OR_RETURN(const Value value, CaptureFiltered(statement, flow));
      if (flow == Flow::kNormal) RETURN_IF_ERROR(Assign(*statement.target, value));
      return flow;
    }
    case StatementKind::kFilter: {
      ASSIGN_OR_RETURN(const Value value, CaptureFiltered(statement, flow));
      if (flow == Flow::kNormal) RETURN_IF_ERROR(EmitValue(value));
      return flow;
    }
    case StatementKind::kIf:
      return ExecIf(statement);
    case StatementKind::kFor:
      return ExecFor(statement);
    case StatementKind::kMacro:
      SetVariable(statement.macro->symbol, MakeMacro(runtime_.heap, *statement.macro, scope_));
      return flow;
    case StatementKind::kCallBlock:
      RETURN_IF_ERROR(ExecCallBlock(statement));
      return flow;
    case StatementKind::kWith:
      return ExecWith(statement);
    case StatementKind::kScope:
      return ExecScoped(statement.body);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return InternalError("unknown statement");
}

StatusOr<Interpreter::Flow> Interpreter::ExecIf(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      ASSIGN_OR_RETURN(const Value condition, Eval(*branch.condition));
      if (!Truthy(condition)) continue;
    }
    return ExecBody(branch.body);
  }
  return Flow::kNormal;
}

// What the loop runs over: its iterable, filtered by the inline `if`, each tested in a scope of its own.
StatusOr<std::vector<Value>> Interpreter::LoopItems(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value iterable, Eval(*statement.value));
  ASSIGN_OR_RETURN(std::vector<Value> items, Iterate(runtime_, iterable));
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    RETURN_IF_ERROR(runtime_.Step());
    ScopeSwap swap(*this, NewScope(scope_));
    RETURN_IF_ERROR(Assign(*statement.target, item));
    ASSIGN_OR_RETURN(const Value condition, Eval(*statement.condition));
    if (Truthy(condition)) kept.push_back(std::move(item));
  }
  return kept;
}

StatusOr<Interpreter::Flow> Interpreter::ExecFor(const Statement& statement) {
  ASSIGN_OR_RETURN(std::vector<Value> items, LoopItems(statement));
  if (items.empty()) return ExecScoped(statement.otherwise);
  auto* object = new LoopObject;
  object->items = std::move(items);
  object->depth0 = loop_depth_;
  runtime_.heap.Adopt(object, sizeof(LoopObject) + object->items.capacity() * sizeof(Value));
  const Value loop = Value::OfObject(Kind::kLoop, object);
  ++loop_depth_;
  StatusOr<Flow> flow = ExecIterations(statement, loop);
  --loop_depth_;
  return flow;
}

StatusOr<Interpreter::Flow> Interpreter::ExecIterations(const Statement& statement, const Value& loop) {
  LoopObject& state = loop.AsLoop();
  const Value outer = scope_;
  ScopeSwap swap(*this, NewScope(outer));
  for (; state.index0 < state.items.size(); ++state.index0) {
    RETURN_IF_ERROR(runtime_.Step());
    if (state.index0 > 0) {
      // A macro defined in the body keeps its scope alive; otherwise the object serves again.
      if (scope_.object()->refs > 1) {
        scope_ = NewScope(outer);
      } else {
        scope_.AsScope().variables.clear();
      }
    }
    SetVariable(source_.symbols.loop, loop);
    RETURN_IF_ERROR(Assign(*statement.target, state.items[state.index0]));
    ASSIGN_OR_RETURN(const Flow flow, ExecBody(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNormal;
}

StatusOr<Interpreter::Flow> Interpreter::ExecScoped(const Body& body) {
  if (body.empty()) return Flow::kNormal;
  ScopeSwap swap(*this, NewScope(scope_));
  return ExecBody(body);
}

StatusOr<Interpreter::Flow> Interpreter::ExecWith(const Statement& statement) {
  Value inner = NewScope(scope_);
  for (const auto& [target, value] :
       statement.bindings) {  // evaluated outside, so they do not see each other
    ASSIGN_OR_RETURN(Value evaluated, Eval(*value));
    SetIn(inner.AsScope(), target->symbol, std::move(evaluated));
  }
  ScopeSwap swap(*this, std::move(inner));
  return ExecBody(statement.body);
}

Status Interpreter::ExecCallBlock(const Statement& statement) {
  const Value caller = MakeMacro(runtime_.heap, *statement.macro, scope_);
  ASSIGN_OR_RETURN(const Value result, EvalCall(*statement.value, &caller));
  return EmitValue(result);
}

StatusOr<Value> Interpreter::Capture(const Body& body, Flow& flow) {
  std::string captured;
  std::string* const saved = out_;
  out_ = &captured;
  ASSIGN_OR_RETURN(flow, ExecScoped(body));
  out_ = saved;
  open_bytes_ -= captured.size();
  captured.shrink_to_fit();  // it may live long as a variable, and the heap counts capacity
  return runtime_.heap.String(std::move(captured));
}

StatusOr<Value> Interpreter::CaptureFiltered(const Statement& statement, Flow& flow) {
  ASSIGN_OR_RETURN(Value text, Capture(statement.body, flow));
  if (statement.value == nullptr || flow != Flow::kNormal) return text;
  Value outer = std::move(block_input_);
  block_input_ = std::move(text);
  ASSIGN_OR_RETURN(Value filtered, Eval(*statement.value));
  block_input_ = std::move(outer);
  return filtered;
}

Status Interpreter::Assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) {
    SetVariable(target.symbol, value);
    return OkStatus();
  }
  if (target.kind == ExprKind::kAttribute) {
    const Value holder = Lookup(target);
    if (holder.kind() != Kind::kNamespace) {
      return InvalidArgumentError(
          "cannot assign attribute '{}' of {}; only a namespace() has assignable ones", target.text,
          TypeName(holder));
    }
    holder.AsDict().SetString(target.text, value);
    return OkStatus();
  }
  if (!IsIterable(value)) return InvalidArgumentError("cannot unpack {}", TypeName(value));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime_, value));
  if (items.size() != target.operands.size()) {
    return InvalidArgumentError("cannot unpack {} values into {} names", items.size(),
                                target.operands.size());
  }
  for (size_t i = 0; i < items.size(); ++i) RETURN_IF_ERROR(Assign(*target.operands[i], items[i]));
  return OkStatus();
}

Status Interpreter::Emit(std::string_view text) {
  RETURN_IF_ERROR(runtime_.Work(text.size()));
  RETURN_IF_ERROR(runtime_.heap.CheckStringLength(open_bytes_ + text.size()));
  open_bytes_ += text.size();
  out_->append(text);
  return OkStatus();
}

Status Interpreter::EmitValue(const Value& value) {
  if (value.is_string()) return Emit(value.AsString());
  ASSIGN_OR_RETURN(const std::string text, ToText(runtime_, value));
  return Emit(text);
}

Value Interpreter::NewScope(Value parent) {
  auto* scope = runtime_.heap.Adopt(new ScopeObject, sizeof(ScopeObject));
  scope->parent = std::move(parent);
  return Value::OfObject(Kind::kScope, scope);
}

void Interpreter::SetIn(ScopeObject& scope, uint32_t symbol, Value value) {
  if (Value* found = scope.FindLocal(symbol); found != nullptr) {
    *found = std::move(value);
  } else {
    scope.variables.emplace_back(symbol, std::move(value));
  }
}

void Interpreter::SetVariable(uint32_t symbol, Value value) {
  if (!scope_.is_undefined()) {
    SetIn(scope_.AsScope(), symbol, std::move(value));
    return;
  }
  globals_[symbol] = std::move(value);
  defined_[symbol] = true;
}

Value Interpreter::Lookup(const Expr& name) const {
  for (const Value* scope = &scope_; !scope->is_undefined(); scope = &scope->AsScope().parent) {
    if (const Value* found = scope->AsScope().FindLocal(name.symbol); found != nullptr) return *found;
  }
  return defined_[name.symbol] ? globals_[name.symbol] : Value::Undefined(&name.text);
}

// Binds the arguments of a macro in a new scope whose parent is where the macro was defined.
StatusOr<Value> Interpreter::BindMacro(const CallableObject& callable, const CallArgs& args) {
  const MacroDef& macro = *callable.macro;
  Value scope = NewScope(callable.scope);
  ScopeSwap swap(*this, scope);
  const size_t given = std::min(args.positional.size(), macro.parameters.size());
  std::vector<bool> used(args.keyword.size(), false);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroParameter& parameter = macro.parameters[i];
    Value value = Value::Undefined(&parameter.name);
    bool found = i < given;
    if (found) value = args.positional[i];
    for (size_t k = 0; !found && k < args.keyword.size(); ++k) {
      if (args.keyword[k].first != parameter.name) continue;
      value = args.keyword[k].second;
      used[k] = found = true;
    }
    if (!found && parameter.otherwise != nullptr) {
      ASSIGN_OR_RETURN(value, Eval(*parameter.otherwise));
    }
    SetVariable(parameter.symbol, std::move(value));
  }
  Value kwargs = runtime_.heap.Dict();
  for (size_t k = 0; k < args.keyword.size(); ++k) {
    const auto& [name, value] = args.keyword[k];
    if (used[k]) continue;
    if (name == "caller" && macro.uses_caller) {
      SetVariable(source_.symbols.caller, value);
    } else if (macro.uses_kwargs) {
      kwargs.AsDict().SetString(name, value);
    } else {
      return InvalidArgumentError("macro '{}' has no argument '{}'", macro.name, name);
    }
  }
  if (macro.uses_kwargs) SetVariable(source_.symbols.kwargs, std::move(kwargs));
  if (macro.uses_varargs) {
    const auto rest = args.positional.begin() + static_cast<std::ptrdiff_t>(given);
    SetVariable(source_.symbols.varargs, runtime_.heap.Tuple({rest, args.positional.end()}));
  } else if (args.positional.size() > given) {
    return InvalidArgumentError("macro '{}' takes at most {} arguments, found {}", macro.name,
                                macro.parameters.size(), args.positional.size());
  }
  return scope;
}

StatusOr<Value> Interpreter::CallMacro(const CallableObject& callable, const CallArgs& args) {
  RETURN_IF_ERROR(runtime_.Step());
  ASSIGN_OR_RETURN(Value scope, BindMacro(callable, args));
  ScopeSwap swap(*this, std::move(scope));
  std::string captured;
  std::string* const saved = out_;
  const uint32_t saved_loop_depth = loop_depth_;
  out_ = &captured;
  loop_depth_ = 0;
  RETURN_IF_ERROR(ExecBody(callable.macro->body).status());
  out_ = saved;
  loop_depth_ = saved_loop_depth;
  open_bytes_ -= captured.size();
  captured.shrink_to_fit();
  return runtime_.heap.String(std::move(captured));
}

}  // namespace paceline::jinja
