// The tree of a template: expressions and statements, immutable after parsing and shared by all
// runs.
//
// Invariant: no path from a statement or expression down to a leaf is longer than kTreeDepthMax, so
// that walking and destroying the tree needs bounded stack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

inline constexpr int kTreeDepthMax = 200;

using Symbol = std::uint32_t;  // index of a variable's name
inline constexpr Symbol kNoSymbol = ~Symbol{0};

// The names of variables in one template.
class Symbols {
  public:
    Symbol intern(std::string_view name);
    const std::string& name(Symbol symbol) const { return *names_[symbol]; }
    std::size_t size() const { return names_.size(); }
    // Marks and asks whether the template reads a variable of this name.
    void note_read(Symbol symbol) { read_[symbol] = true; }
    bool reads(std::string_view name) const;
    // kNoSymbol when the template never names it.
    Symbol find(std::string_view name) const;

  private:
    std::unordered_map<std::string_view, Symbol> index_;  // views into names_
    std::vector<std::unique_ptr<const std::string>> names_;
    std::vector<bool> read_;
};

enum class ExprKind : std::uint8_t {
    constant,
    variable,
    list,
    tuple,
    dict,       // items: key, value, key, value, ...
    attribute,  // items[0].name
    subscript,  // items[0][items[1]]
    slice,      // items[0][items[1]:items[2]:items[3]], each of the three may be null
    call,       // items[0](arguments)
    filter,     // items[0] | name(arguments); items[0] is null inside a filter block
    test,       // items[0] is name(arguments)
    negate,     // -x
    plus,       // +x
    not_,
    and_,
    or_,
    binary,       // items[0] op items[1]
    compare,      // items[0] compares[0] items[1] compares[1] ...
    concat,       // items joined by ~
    conditional,  // items[0] if items[1] else items[2], which may be null
};

enum class BinaryOp : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp : std::uint8_t {
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    in,
    not_in
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Argument {
    enum class Kind : std::uint8_t { positional, keyword, star, star_star };
    Kind kind = Kind::positional;
    std::string name;  // of a keyword
    ExprPtr value;
};

struct Expr {
    ExprKind kind = ExprKind::constant;
    Position at;
    int depth = 1;
    Object constant;
    Symbol symbol = 0;
    std::string name;  // variable, attribute, filter or test
    BinaryOp op = BinaryOp::add;
    std::vector<ExprPtr> items;
    std::vector<CompareOp> compares;
    std::vector<Argument> arguments;
};

// What a for or set assigns to.
struct Target {
    enum class Kind : std::uint8_t { name, attribute, tuple };
    Kind kind = Kind::name;
    Position at;
    Symbol symbol = 0;  // name; of an attribute: the namespace
    std::string attribute;
    std::vector<Target> parts;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
    Symbol symbol = 0;
    std::string name;
    ExprPtr fallback;  // null: none
};

// Parameters and body of a macro or of a call block (its caller).
struct MacroNode {
    std::string name;
    std::vector<Parameter> parameters;
    bool reads_varargs = false;
    bool reads_kwargs = false;
    bool reads_caller = false;
    Body body;
};

enum class StmtKind : std::uint8_t {
    text,          // data
    output,        // expr
    if_,           // branches; a branch without a condition is the else
    for_,          // target in expr if filter: body, else_body
    set,           // target = expr
    set_block,     // target = body, through expr (a filter) when there is one
    macro,         // macro, named by symbol
    call_block,    // expr is the call; macro is its caller
    filter_block,  // expr is the filter chain with an empty place for the body's text
    with,          // assignments, body
    group,         // a body with a scope of its own (generation)
    break_,
    continue_,
};

struct Branch {
    ExprPtr condition;
    Body body;
};

struct Stmt {
    StmtKind kind = StmtKind::text;
    Position at;
    std::string data;
    ExprPtr expr;
    ExprPtr filter;
    Target target;
    bool recursive = false;
    std::vector<Branch> branches;
    std::vector<std::pair<Target, ExprPtr>> assignments;
    Body body;
    Body else_body;
    Symbol symbol = 0;
    std::unique_ptr<MacroNode> macro;
};

struct Tree {
    Body body;
    Symbols symbols;
};

}  // namespace strata::serve::jinja
