// One run of a tree: variables in scopes, statements that write, expressions that give values.
// Everything a run creates dies with it.
//
// Scopes. Lookup goes outward from the innermost scope, then to the context, then to the built-in
// functions. for, macro, call, filter, with and block-set bodies have a scope of their own; if has
// none. A macro sees the scope it was defined in, so such a scope lives until the run ends
// (`captured`).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/text/jinja/arguments.hpp"
#include "serve/text/jinja/ast.hpp"
#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<Symbol, Object>> variables;
    bool captured = false;
};

struct Macro {
    const MacroNode* node = nullptr;
    Scope* home = nullptr;
};

class Interpreter {
  public:
    struct Options {
        int calls_max = 0;  // nested calls of macros and recursive loops
        std::string date;   // YYYY-MM-DD, "" = now
    };
    Interpreter(const Tree& tree, Meter& meter, Options options);

    // Before run(): a variable of the context.
    void define(const std::string& name, Object value);
    // Writes into `out`; the meter tells whether it went to the end.
    void run(TextBuilder& out);

  private:
    enum class Flow : std::uint8_t { next, break_, continue_ };
    class ScopeFrame;
    class Nesting;

    // execute.cpp
    Flow execute(const Body& body);
    Flow execute(const Stmt& stmt);
    Flow execute_if(const Stmt& stmt);
    Flow execute_for(const Stmt& stmt);
    Flow run_loop(const Stmt& stmt, const Object& iterable, std::size_t depth);
    Flow run_iterations(const Stmt& stmt, const std::shared_ptr<Loop>& loop);
    std::optional<Objects> loop_items(const Stmt& stmt, const Object& iterable);
    void execute_set_block(const Stmt& stmt);
    void execute_filter_block(const Stmt& stmt);
    void execute_call_block(const Stmt& stmt);
    Flow execute_with(const Stmt& stmt);
    void assign(const Target& target, const Object& value);
    void assign_attribute(const Target& target, const Object& value);
    // The text that a body writes, in a scope of its own.
    TextPtr capture(const Body& body);

    // evaluate.cpp
    Object evaluate(const Expr& expr);
    Object evaluate_kind(const Expr& expr);
    Object evaluate_sequence(const Expr& expr, Flavor flavor);
    Object evaluate_dict(const Expr& expr);
    Object evaluate_slice(const Expr& expr);
    Object evaluate_part(const ExprPtr& part);  // None when it is left out
    Object evaluate_filter(const Expr& expr);
    Object evaluate_compare(const Expr& expr);
    Object evaluate_concat(const Expr& expr);
    Object evaluate_call(const Expr& expr, const Macro* caller = nullptr);
    Arguments evaluate_arguments(const Expr& expr);
    Object look_up(const Expr& expr) const;
    const Object* find(Symbol symbol) const;

    // call.cpp
    Object call(const Object& callee, const Arguments& arguments, const Macro* caller);
    Object call_macro(const Macro& macro, const Arguments& arguments, const Macro* caller);
    bool bind_parameters(const Macro& macro, const Arguments& arguments, const Macro* caller);
    Object call_loop(Loop& loop, const Arguments& arguments);
    Object call_builtin(Builtin builtin, const Arguments& arguments);
    Object make_namespace(const Arguments& arguments);
    Object make_dict_object(const Arguments& arguments);
    Object make_range(const Arguments& arguments);
    Object format_time(const Arguments& arguments);
    // A macro or caller that sees the present scope.
    const Macro* make_macro(const MacroNode& node);

    void set(Symbol symbol, Object value);

    const Tree& tree_;
    Meter& meter_;
    Options options_;
    std::vector<std::pair<bool, Object>> context_;  // by symbol; false: not defined
    // What macros get besides their parameters; kNoSymbol when the template never names it.
    Symbol caller_symbol_ = kNoSymbol;
    Symbol varargs_symbol_ = kNoSymbol;
    Symbol kwargs_symbol_ = kNoSymbol;
    TextBuilder* out_ = nullptr;
    Scope* scope_ = nullptr;
    const Object* filter_input_ = nullptr;  // what the filter of a filter block works on
    int nesting_ = 0;
    int calls_ = 0;
    // Owned by the run: values point to these.
    std::vector<std::unique_ptr<Namespace>> namespaces_;
    std::vector<std::unique_ptr<Macro>> macros_;
    std::vector<std::unique_ptr<Scope>> captured_;
    std::vector<std::unique_ptr<Scope>> spare_;  // scopes to use again
};

// Frames of the walk over tree and calls together; each takes below 1 KiB of stack.
inline constexpr int kNestingMax = 2000;

class Interpreter::Nesting {
  public:
    explicit Nesting(Interpreter& run) : run_(run) {
        if (++run_.nesting_ > kNestingMax)
            run_.meter_.fail("calls and blocks are nested too deeply");
    }
    ~Nesting() { --run_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

  private:
    Interpreter& run_;
};

// The innermost scope while it lives.
class Interpreter::ScopeFrame {
  public:
    ScopeFrame(Interpreter& run, Scope* parent);
    ~ScopeFrame();
    ScopeFrame(const ScopeFrame&) = delete;
    ScopeFrame& operator=(const ScopeFrame&) = delete;

  private:
    Interpreter& run_;
    Scope* outer_;
    std::unique_ptr<Scope> own_;
};

}  // namespace strata::serve::jinja
