// The parsed template. Immutable after Parse, so that renders on several threads share it.
//
// Nodes are plain structs with a kind; which fields a kind uses stands beside it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/text/template/callable.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  kNone,
  kBool,         // integer
  kInteger,      // integer
  kFloat,        // number
  kString,       // text
  kName,         // text, symbol
  kTuple,        // operands
  kList,         // operands
  kDict,         // operands: key, value, key, value ...
  kAttribute,    // operands[0].text; as a target: namespace `symbol` . text
  kItem,         // operands[0][operands[1]]
  kSlice,        // operands[0][a:b:c] with a, b, c = operands[1..3], null where left out
  kCall,         // operands[0](arguments)
  kFilter,       // operands[0] | text(arguments), native; operands[0] null in a filter block
  kTest,         // operands[0] is text(arguments), test
  kNot,          // operands[0]
  kNegate,       // operands[0]
  kPlus,         // operands[0]
  kBinary,       // operands[0] op operands[1]
  kConcat,       // operands[0] ~ operands[1] ~ ...
  kCompare,      // operands[0] compare_ops[0] operands[1] compare_ops[1] ...
  kAnd,          // operands[0], operands[1]
  kOr,           // operands[0], operands[1]
  kConditional,  // operands[0] if operands[1] else operands[2] (null: undefined)
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Argument {
  std::string keyword;  // empty: positional
  ExprPtr value;
};

struct Expr {
  Expr(ExprKind k, uint32_t l) : kind(k), line(l) {}
  ExprKind kind;
  BinaryOp op = BinaryOp::kAdd;
  uint32_t line;
  uint32_t symbol = 0;
  uint32_t depth = 1;  // of the tree below, this node included
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<ExprPtr> operands;
  std::vector<Argument> arguments;
  std::vector<CompareOp> compare_ops;
  NativeFn native = nullptr;
  TestFn test = nullptr;
};

struct Statement;
using Body = std::vector<Statement>;

enum class StatementKind : uint8_t {
  kText,       // text
  kPrint,      // value
  kSet,        // target = value
  kSetBlock,   // target = filter chain `value` (or null) of body
  kIf,         // branches; a null condition is else
  kFor,        // target in value [if condition] body, otherwise
  kMacro,      // macro
  kCallBlock,  // value is the call, macro the caller
  kFilter,     // value is the filter chain, body
  kWith,       // bindings, body
  kScope,      // body in a scope of its own (generation)
  kBreak,
  kContinue,
};

struct Branch {
  ExprPtr condition;
  Body body;
};

struct MacroParameter {
  std::string name;
  uint32_t symbol = 0;
  ExprPtr otherwise;  // null: undefined
};

struct MacroDef {
  std::string name;
  uint32_t symbol = 0;
  std::vector<MacroParameter> parameters;
  Body body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Statement {
  Statement(StatementKind k, uint32_t l) : kind(k), line(l) {}
  StatementKind kind;
  uint32_t line;
  std::string text;
  ExprPtr target;
  ExprPtr value;
  ExprPtr condition;
  Body body;
  Body otherwise;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;
  std::unique_ptr<MacroDef> macro;
};

// Names of variables become numbers once, at parse.
class SymbolTable {
 public:
  SymbolTable();
  uint32_t Intern(std::string_view name);
  // False if the template never mentions `name`.
  bool Find(std::string_view name, uint32_t& symbol) const;
  size_t size() const { return numbers_.size(); }

  uint32_t loop = 0, caller = 0, varargs = 0, kwargs = 0;

 private:
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

struct Template {
  SymbolTable symbols;
  Body body;
};

}  // namespace paceline::jinja
