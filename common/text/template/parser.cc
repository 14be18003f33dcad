#include "common/text/template/parser.h"

#include <algorithm>
#include <initializer_list>

#include "common/text/template/expression_parser.h"
#include "common/text/template/lexer.h"

namespace paceline::jinja {
namespace {

constexpr uint32_t kBlockDepthMax = 100;

// A scope is searched name by name, so their number is part of what a look-up costs. Real templates have <
// 200.
constexpr size_t kVariableNamesMax = 1024;

using Conditional = ExpressionParser::Conditional;

class StatementParser {
 public:
  StatementParser(std::vector<Token> tokens, SymbolTable& symbols)
      : expressions_(std::move(tokens), symbols), symbols_(symbols) {}

  StatusOr<Body> Run() {
    ASSIGN_OR_RETURN(Body body, ParseBody({}));
    return body;
  }

 private:
  const Token& current() const { return expressions_.current(); }
  Status EndTag() { return expressions_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  // Statements up to a tag named in `ends` (whose name is then current), or to the end of the template.
  StatusOr<Body> ParseBody(std::initializer_list<std::string_view> ends) {
    DepthGuard guard(depth_, kBlockDepthMax);
    if (!guard.fits()) {
      return expressions_.FailUnsupported(fmt::format("nesting blocks deeper than {}", kBlockDepthMax));
    }
    Body body;
    while (true) {
      const Token& token = current();
      switch (token.kind) {
        case TokenKind::kEnd:
          if (ends.size() == 0) return body;
          return expressions_.Fail(fmt::format("the template ends before '{}'", *(ends.end() - 1)));
        case TokenKind::kData:
          body.emplace_back(StatementKind::kText, token.line);
          body.back().text = token.text;
          expressions_.Next();
          break;
        case TokenKind::kVariableBegin: {
          expressions_.Next();
          Statement print(StatementKind::kPrint, token.line);
          ASSIGN_OR_RETURN(print.value, expressions_.ParseTuple(Conditional::kAllowed));
          RETURN_IF_ERROR(expressions_.Expect(TokenKind::kVariableEnd, "'}}'"));
          body.push_back(std::move(print));
          break;
        }
        default: {
          RETURN_IF_ERROR(expressions_.Expect(TokenKind::kBlockBegin, "a tag"));
          const std::string_view name = current().text;
          if (current().kind == TokenKind::kName && std::find(ends.begin(), ends.end(), name) != ends.end()) {
            return body;
          }
          ASSIGN_OR_RETURN(Statement statement, ParseStatement());
          RETURN_IF_ERROR(EndTag());
          body.push_back(std::move(statement));
        }
      }
    }
  }

  // The body of a tag whose head has been read; leaves the end tag's name current.
  StatusOr<Body> ParseBlock(std::initializer_list<std::string_view> ends) {
    expressions_.SkipOperator(":");
    RETURN_IF_ERROR(EndTag());
    return ParseBody(ends);
  }

  // The same for a tag with one possible end, which is consumed.
  StatusOr<Body> ParseWholeBlock(std::string_view end) {
    ASSIGN_OR_RETURN(Body body, ParseBlock({end}));
    expressions_.Next();
    return body;
  }

  StatusOr<Statement> ParseStatement() {
    const uint32_t line = current().line;
    ASSIGN_OR_RETURN(const std::string tag, expressions_.ExpectIdentifier("a tag name"));
    if (tag == "set") return ParseSet(line);
    if (tag == "if") return ParseIf(line);
    if (tag == "for") return ParseFor(line);
    if (tag == "macro") return ParseMacro(line);
    if (tag == "call") return ParseCallBlock(line);
    if (tag == "filter") return ParseFilterBlock(line);
    if (tag == "with") return ParseWith(line);
    if (tag == "generation") {
      Statement scope(StatementKind::kScope, line);
      ASSIGN_OR_RETURN(scope.body, ParseWholeBlock("endgeneration"));
      return scope;
    }
    if (tag == "break" || tag == "continue") {
      if (loop_depth_ == 0) return expressions_.Fail(fmt::format("'{}' outside of a loop", tag));
      return Statement(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    return expressions_.FailUnsupported(fmt::format("tag '{}'", tag));
  }

  StatusOr<Statement> ParseSet(uint32_t line) {
    Statement set(StatementKind::kSet, line);
    ASSIGN_OR_RETURN(set.target, expressions_.ParseTarget(/*with_namespace=*/true));
    if (expressions_.SkipOperator("=")) {
      ASSIGN_OR_RETURN(set.value, expressions_.ParseTuple(Conditional::kAllowed));
      return set;
    }
    set.kind = StatementKind::kSetBlock;
    ASSIGN_OR_RETURN(set.value, expressions_.ParseFilters(nullptr, false));
    ASSIGN_OR_RETURN(set.body, ParseWholeBlock("endset"));
    return set;
  }

  StatusOr<Statement> ParseIf(uint32_t line) {
    Statement chain(StatementKind::kIf, line);
    bool more = true;
    while (more) {
      Branch branch;
      ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple(Conditional::kNotAllowed));
      ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}));
      chain.branches.push_back(std::move(branch));
      more = expressions_.SkipName("elif");
    }
    if (expressions_.SkipName("else")) {
      Branch otherwise;
      ASSIGN_OR_RETURN(otherwise.body, ParseBlock({"endif"}));
      chain.branches.push_back(std::move(otherwise));
    }
    RETURN_IF_ERROR(expressions_.ExpectName("endif"));
    return chain;
  }

  StatusOr<Statement> ParseFor(uint32_t line) {
    Statement loop(StatementKind::kFor, line);
    ASSIGN_OR_RETURN(loop.target, expressions_.ParseTarget(/*with_namespace=*/false, "in"));
    RETURN_IF_ERROR(expressions_.ExpectName("in"));
    ASSIGN_OR_RETURN(loop.value, expressions_.ParseTuple(Conditional::kNotAllowed, "recursive"));
    if (expressions_.SkipName("if")) {
      ASSIGN_OR_RETURN(loop.condition, expressions_.ParseExpression());
    }
    if (expressions_.IsName("recursive")) return expressions_.FailUnsupported("a recursive for loop");
    ++loop_depth_;
    ASSIGN_OR_RETURN(loop.body, ParseBlock({"else", "endfor"}));
    --loop_depth_;
    if (expressions_.SkipName("else")) {
      ASSIGN_OR_RETURN(loop.otherwise, ParseBlock({"endfor"}));
    }
    RETURN_IF_ERROR(expressions_.ExpectName("endfor"));
    return loop;
  }

  StatusOr<std::vector<MacroParameter>> ParseSignature() {
    std::vector<MacroParameter> parameters;
    RETURN_IF_ERROR(expressions_.ExpectOperator("("));
    while (!expressions_.IsOperator(")")) {
      if (!parameters.empty()) RETURN_IF_ERROR(expressions_.ExpectOperator(","));
      MacroParameter parameter;
      ASSIGN_OR_RETURN(parameter.name, expressions_.ExpectIdentifier("a parameter name"));
      parameter.symbol = symbols_.Intern(parameter.name);
      if (expressions_.SkipOperator("=")) {
        ASSIGN_OR_RETURN(parameter.otherwise, expressions_.ParseExpression());
      } else if (!parameters.empty() && parameters.back().otherwise != nullptr) {
        return expressions_.Fail("a parameter without a default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
    }
    expressions_.Next();
    return parameters;
  }

  // A macro's body: its own loops and its own special names.
  Status ParseMacroBody(MacroDef& macro, std::string_view end) {
    const SpecialNames outer = expressions_.special_names;
    const uint32_t outer_loops = loop_depth_;
    expressions_.special_names = {};
    loop_depth_ = 0;
    ASSIGN_OR_RETURN(macro.body, ParseWholeBlock(end));
    macro.uses_caller = expressions_.special_names.caller;
    macro.uses_varargs = expressions_.special_names.varargs;
    macro.uses_kwargs = expressions_.special_names.kwargs;
    for (const MacroParameter& parameter : macro.parameters) {  // an explicit parameter is just that
      if (parameter.name == "caller") macro.uses_caller = false;
      if (parameter.name == "varargs") macro.uses_varargs = false;
      if (parameter.name == "kwargs") macro.uses_kwargs = false;
    }
    expressions_.special_names = outer;
    loop_depth_ = outer_loops;
    return OkStatus();
  }

  StatusOr<Statement> ParseMacro(uint32_t line) {
    Statement statement(StatementKind::kMacro, line);
    statement.macro = std::make_unique<MacroDef>();
    MacroDef& macro = *statement.macro;
    ASSIGN_OR_RETURN(macro.name, expressions_.ExpectIdentifier("a macro name"));
    macro.symbol = symbols_.Intern(macro.name);
    ASSIGN_OR_RETURN(macro.parameters, ParseSignature());
    RETURN_IF_ERROR(ParseMacroBody(macro, "endmacro"));
    return statement;
  }

  StatusOr<Statement> ParseCallBlock(uint32_t line) {
    Statement call(StatementKind::kCallBlock, line);
    call.macro = std::make_unique<MacroDef>();
    call.macro->name = "caller";
    if (expressions_.IsOperator("(")) {
      ASSIGN_OR_RETURN(call.macro->parameters, ParseSignature());
    }
    ASSIGN_OR_RETURN(call.value, expressions_.ParseExpression());
    if (call.value->kind != ExprKind::kCall) return expressions_.Fail("a call block needs a macro call");
    RETURN_IF_ERROR(ParseMacroBody(*call.macro, "endcall"));
    return call;
  }

  StatusOr<Statement> ParseFilterBlock(uint32_t line) {
    Statement filter(StatementKind::kFilter, line);
    ASSIGN_OR_RETURN(filter.value, expressions_.ParseFilters(nullptr, /*first_is_named=*/true));
    ASSIGN_OR_RETURN(filter.body, ParseWholeBlock("endfilter"));
    return filter;
  }

  StatusOr<Statement> ParseWith(uint32_t line) {
    Statement with(StatementKind::kWith, line);
    while (current().kind != TokenKind::kBlockEnd) {
      if (!with.bindings.empty()) RETURN_IF_ERROR(expressions_.ExpectOperator(","));
      const uint32_t target_line = current().line;
      ASSIGN_OR_RETURN(std::string name, expressions_.ExpectIdentifier("a name to assign to"));
      auto target = std::make_unique<Expr>(ExprKind::kName, target_line);
      target->symbol = symbols_.Intern(name);
      target->text = std::move(name);
      RETURN_IF_ERROR(expressions_.ExpectOperator("="));
      ASSIGN_OR_RETURN(ExprPtr value, expressions_.ParseExpression());
      with.bindings.emplace_back(std::move(target), std::move(value));
    }
    ASSIGN_OR_RETURN(with.body, ParseWholeBlock("endwith"));
    return with;
  }

  ExpressionParser expressions_;
  SymbolTable& symbols_;
  uint32_t depth_ = 0;
  uint32_t loop_depth_ = 0;
};

}  // namespace

SymbolTable::SymbolTable() {
  loop = Intern("loop");
  caller = Intern("caller");
  varargs = Intern("varargs");
  kwargs = Intern("kwargs");
}

uint32_t SymbolTable::Intern(std::string_view name) {
  return numbers_.try_emplace(std::string(name), static_cast<uint32_t>(numbers_.size())).first->second;
}

bool SymbolTable::Find(std::string_view name, uint32_t& symbol) const {
  const auto it = numbers_.find(std::string(name));
  if (it == numbers_.end()) return false;
  symbol = it->second;
  return true;
}

StatusOr<Template> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  Template parsed;
  StatementParser parser(std::move(tokens), parsed.symbols);
  ASSIGN_OR_RETURN(parsed.body, parser.Run());
  if (parsed.symbols.size() > kVariableNamesMax) {
    return UnimplementedError("chat template uses {} variable names, the limit is {}", parsed.symbols.size(),
                              kVariableNamesMax);
  }
  return parsed;
}

}  // namespace paceline::jinja
