#include "common/text/template/content_format.h"

#include <set>
#include <string_view>

namespace paceline::jinja {
namespace {

// What a variable holds, found by following assignments until nothing new turns up. Scopes are ignored: a
// template that reuses a name for something else is rare, and the answer only picks a representation.
class ContentFinder {
 public:
  explicit ContentFinder(const Template& source) : source_(source) { lists_.insert("messages"); }

  bool Run() {
    size_t known = 0;
    do {
      known = Known();
      VisitBody(source_.body);
    } while (Known() != known && !found_);
    return found_;
  }

 private:
  using Names = std::set<std::string_view>;

  size_t Known() const { return lists_.size() + messages_.size() + contents_.size(); }

  // Strips what leaves a value of the same kind: filters, slices.
  static const Expr& Core(const Expr& expr) {
    const Expr* core = &expr;
    while ((core->kind == ExprKind::kFilter || core->kind == ExprKind::kSlice) &&
           core->operands[0] != nullptr) {
      core = core->operands[0].get();
    }
    return *core;
  }

  static bool IsIn(const Names& names, const Expr& expr) {
    return expr.kind == ExprKind::kName && names.count(expr.text) > 0;
  }

  bool IsList(const Expr& expr) const { return IsIn(lists_, Core(expr)); }

  bool IsMessage(const Expr& expr) const {
    const Expr& core = Core(expr);
    if (IsIn(messages_, core)) return true;
    return core.kind == ExprKind::kItem && core.operands[1]->kind != ExprKind::kString &&
           IsList(*core.operands[0]);
  }

  bool IsContent(const Expr& expr) const {
    const Expr& core = Core(expr);
    if (IsIn(contents_, core)) return true;
    if (core.kind == ExprKind::kAttribute) return core.text == "content" && IsMessage(*core.operands[0]);
    if (core.kind == ExprKind::kItem) {
      return core.operands[1]->kind == ExprKind::kString && core.operands[1]->text == "content" &&
             IsMessage(*core.operands[0]);
    }
    if (core.kind != ExprKind::kCall) return false;  // message.get('content')
    const Expr& callee = *core.operands[0];
    return callee.kind == ExprKind::kAttribute && callee.text == "get" && !core.arguments.empty() &&
           core.arguments[0].value->kind == ExprKind::kString && core.arguments[0].value->text == "content" &&
           IsMessage(*callee.operands[0]);
  }

  void Learn(std::string_view name, const Expr& value) {
    if (IsList(value)) lists_.insert(name);
    if (IsMessage(value)) messages_.insert(name);
    if (IsContent(value)) contents_.insert(name);
    if (value.kind == ExprKind::kConditional) {
      Learn(name, *value.operands[0]);
      if (value.operands.size() > 2) Learn(name, *value.operands[2]);
    }
  }

  void VisitBody(const Body& body) {
    for (const Statement& statement : body) Visit(statement);
  }

  void Visit(const Statement& s) {
    if (s.macro != nullptr) {
      macros_.insert({s.macro->name, s.macro.get()});
      VisitBody(s.macro->body);
    }
    if (s.kind == StatementKind::kSet && s.target->kind == ExprKind::kName) Learn(s.target->text, *s.value);
    if (s.kind == StatementKind::kFor) {
      if (IsContent(*s.value)) found_ = true;
      if (IsList(*s.value) && s.target->kind == ExprKind::kName) messages_.insert(s.target->text);
    }
    for (const ExprPtr* expr : {&s.value, &s.condition}) {
      if (*expr != nullptr) VisitExpr(**expr);
    }
    for (const Branch& branch : s.branches) {
      if (branch.condition != nullptr) VisitExpr(*branch.condition);
      VisitBody(branch.body);
    }
    for (const auto& [target, value] : s.bindings) Learn(target->text, *value);
    VisitBody(s.body);
    VisitBody(s.otherwise);
  }

  // Macro calls pass kinds on to parameters.
  void VisitExpr(const Expr& expr) {
    for (const ExprPtr& operand : expr.operands) {
      if (operand != nullptr) VisitExpr(*operand);
    }
    for (const Argument& argument : expr.arguments) VisitExpr(*argument.value);
    if (expr.kind != ExprKind::kCall || expr.operands[0]->kind != ExprKind::kName) return;
    const auto macro = macros_.find(expr.operands[0]->text);
    if (macro == macros_.end()) return;
    const auto& parameters = macro->second->parameters;
    for (size_t i = 0; i < expr.arguments.size(); ++i) {
      const Argument& argument = expr.arguments[i];
      for (size_t p = 0; p < parameters.size(); ++p) {
        const bool same = argument.keyword.empty() ? p == i : parameters[p].name == argument.keyword;
        if (same) Learn(parameters[p].name, *argument.value);
      }
    }
  }

  const Template& source_;
  Names lists_;
  Names messages_;
  Names contents_;
  absl::flat_hash_map<std::string_view, const MacroDef*> macros_;
  bool found_ = false;
};

}  // namespace

bool IteratesOverContent(const Template& source) { return ContentFinder(source).Run(); }

}  // namespace paceline::jinja
