// Runs a parsed template once. Made per render, used by one thread, holds no state of the host.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/template/ast.h"
#include "common/text/template/runtime.h"

namespace paceline::jinja {

class Interpreter {
 public:
  // Both outlive the interpreter; `runtime`'s heap holds every value it makes.
  Interpreter(const Template& source, Runtime& runtime);

  // `context` is an object; its strings are copied, its keys are not and must live until this returns.
  StatusOr<std::string> Run(const nlohmann::ordered_json& context);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  class ScopeSwap;

  // Statements (interpreter.cc).
  Status LoadContext(const nlohmann::ordered_json& context);
  StatusOr<Flow> ExecBody(const Body& body);
  StatusOr<Flow> Exec(const Statement& statement);
  StatusOr<Flow> ExecIf(const Statement& statement);
  StatusOr<Flow> ExecFor(const Statement& statement);
  StatusOr<std::vector<Value>> LoopItems(const Statement& statement);
  StatusOr<Flow> ExecIterations(const Statement& statement, const Value& loop);
  StatusOr<Flow> ExecScoped(const Body& body);
  StatusOr<Flow> ExecWith(const Statement& statement);
  Status ExecCallBlock(const Statement& statement);
  // Runs `body` in a new scope with its output going to the returned string instead.
  StatusOr<Value> Capture(const Body& body, Flow& flow);
  StatusOr<Value> CaptureFiltered(const Statement& statement, Flow& flow);
  Status Assign(const Expr& target, const Value& value);
  Status Emit(std::string_view text);
  Status EmitValue(const Value& value);

  // Expressions (evaluator.cc).
  StatusOr<Value> Eval(const Expr& expr);
  StatusOr<Value> EvalInner(const Expr& expr);
  StatusOr<Value> EvalSequence(const Expr& expr, ListFlavor flavor);
  StatusOr<Value> EvalDict(const Expr& expr);
  StatusOr<Value> EvalSlice(const Expr& expr);
  StatusOr<Value> EvalFilter(const Expr& expr);
  StatusOr<Value> EvalTest(const Expr& expr);
  StatusOr<Value> EvalCompare(const Expr& expr);
  StatusOr<bool> CompareOnce(CompareOp op, const Value& a, const Value& b);
  StatusOr<Value> EvalConcat(const Expr& expr);
  StatusOr<Value> EvalConditional(const Expr& expr);
  StatusOr<Value> EvalCall(const Expr& expr, const Value* caller);
  StatusOr<CallArgs> EvalArguments(const Expr& expr);
  StatusOr<Value> CallMacro(const CallableObject& callable, const CallArgs& args);
  StatusOr<Value> BindMacro(const CallableObject& callable, const CallArgs& args);

  Value Lookup(const Expr& name) const;
  void SetVariable(uint32_t symbol, Value value);
  Value NewScope(Value parent);
  static void SetIn(ScopeObject& scope, uint32_t symbol, Value value);

  const Template& source_;
  Runtime& runtime_;
  std::vector<Value> globals_;  // by symbol; the outermost scope
  std::vector<bool> defined_;   // which of them are set
  Value scope_;                 // the innermost scope; undefined at the outermost
  Value block_input_;           // what a filter block or set block filters
  std::string* out_ = nullptr;
  size_t open_bytes_ = 0;  // in all output buffers that are being written
  uint32_t depth_ = 0;
  uint32_t loop_depth_ = 0;
  uint32_t line_ = 0;  // of what runs now, for errors
};

}  // namespace paceline::jinja
