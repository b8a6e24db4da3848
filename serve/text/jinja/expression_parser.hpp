// The grammar of expressions. Statements are parser.cpp's.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "serve/text/jinja/ast.hpp"
#include "serve/text/jinja/token_reader.hpp"

namespace strata::serve::jinja {

// What a macro's body reads besides its parameters.
struct SpecialReads {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
};

class ExpressionParser {
  public:
    ExpressionParser(TokenReader& tokens, Symbols& symbols) : tokens_(tokens), symbols_(symbols) {}

    // After a refusal of the tokens the results below may be null.
    ExprPtr parse_expression(bool with_conditional = true);
    // A bare tuple or one expression. `end_name` ends it besides the usual ends.
    ExprPtr parse_tuple(bool with_conditional, std::string_view end_name = {});
    // name(arguments) after a filter's bar or in a filter block, and any chain that follows.
    ExprPtr parse_filters(ExprPtr input, bool first_bar_taken);
    // name, a.b (when `with_namespace`) or a tuple of names.
    Target parse_target(bool with_namespace, std::string_view end_name);
    ExprPtr parse_unary(bool with_filters);
    std::vector<Argument> parse_arguments();

    Symbol read_symbol(const std::string& name);
    SpecialReads reads;  // since the caller last cleared it

  private:
    ExprPtr make(ExprKind kind, Position at, std::vector<ExprPtr> items = {});
    ExprPtr make_constant(Position at, Object value);
    void settle_depth(Expr& expr);
    ExprPtr parse_or();
    ExprPtr parse_and();
    ExprPtr parse_not();
    ExprPtr parse_compare();
    ExprPtr parse_sum();
    ExprPtr parse_concat();
    ExprPtr parse_product();
    ExprPtr parse_power();
    ExprPtr parse_primary();
    ExprPtr parse_name(const Token& token);
    ExprPtr parse_number(const Token& token);
    ExprPtr parse_parenthesis(Position at);
    ExprPtr parse_list(Position at);
    ExprPtr parse_dict(Position at);
    ExprPtr parse_postfix(ExprPtr node);
    ExprPtr parse_filter_or_test(ExprPtr node);
    ExprPtr parse_filter(ExprPtr input);
    ExprPtr parse_test(ExprPtr node);
    ExprPtr parse_dot(ExprPtr node);
    ExprPtr parse_brackets(ExprPtr node);
    ExprPtr parse_call(ExprPtr callee);
    Target parse_one_target(bool with_namespace);
    std::optional<CompareOp> take_compare();
    bool at_tuple_end(std::string_view end_name) const;

    TokenReader& tokens_;
    Symbols& symbols_;
    int depth_ = 0;  // of the descent
};

}  // namespace strata::serve::jinja
