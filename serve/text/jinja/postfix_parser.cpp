// What may follow a value: attributes, subscripts, calls, filters, tests; and what may be assigned
// to.
#include <charconv>
#include <utility>

#include "serve/text/jinja/expression_parser.hpp"

namespace strata::serve::jinja {

std::string TokenReader::describe() const {
    const Token& token = peek();
    switch (token.type) {
        case TokenType::text:
            return "text";
        case TokenType::variable_begin:
            return "'{{'";
        case TokenType::variable_end:
            return "'}}'";
        case TokenType::block_begin:
            return "'{%'";
        case TokenType::block_end:
            return "'%}'";
        case TokenType::string:
            return "a string";
        case TokenType::end:
            return "the end of the template";
        case TokenType::name:
        case TokenType::integer:
        case TokenType::real:
        case TokenType::symbol:
            break;
    }
    constexpr std::size_t kShownMax = 40;
    return "'" + token.value.substr(0, kShownMax) + "'";
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
    while (!tokens_.failed()) {
        if (tokens_.is_symbol(".")) {
            node = parse_dot(std::move(node));
        } else if (tokens_.is_symbol("[")) {
            node = parse_brackets(std::move(node));
        } else if (tokens_.is_symbol("(")) {
            node = parse_call(std::move(node));
        } else {
            break;
        }
    }
    return node;
}

ExprPtr ExpressionParser::parse_filter_or_test(ExprPtr node) {
    while (!tokens_.failed()) {
        if (tokens_.skip_symbol("|")) {
            node = parse_filter(std::move(node));
        } else if (tokens_.skip_name("is")) {
            node = parse_test(std::move(node));
        } else if (tokens_.is_symbol("(")) {
            node = parse_call(std::move(node));
        } else {
            break;
        }
    }
    return node;
}

ExprPtr ExpressionParser::parse_dot(ExprPtr node) {
    const Position at = tokens_.take().at;
    const Token token = tokens_.peek();
    std::vector<ExprPtr> items;
    items.push_back(std::move(node));
    if (token.type == TokenType::integer) {
        tokens_.take();
        items.push_back(parse_number(token));
        return make(ExprKind::subscript, at, std::move(items));
    }
    std::string name = tokens_.expect_name("a name or number after '.'");
    ExprPtr expr = make(ExprKind::attribute, at, std::move(items));
    expr->name = std::move(name);
    return expr;
}

ExprPtr ExpressionParser::parse_brackets(ExprPtr node) {
    const Position at = tokens_.take().at;
    std::vector<ExprPtr> items;
    items.push_back(std::move(node));
    bool slice = false;
    const auto at_part_end = [this] { return tokens_.is_symbol(":") || tokens_.is_symbol("]"); };
    items.push_back(at_part_end() ? nullptr : parse_expression());
    while (items.size() < 4 && tokens_.skip_symbol(":")) {
        slice = true;
        items.push_back(at_part_end() ? nullptr : parse_expression());
    }
    if (!slice && tokens_.is_symbol(",")) {  // x[a, b]: the key is a tuple
        std::vector<ExprPtr> keys;
        keys.push_back(std::move(items[1]));
        while (tokens_.skip_symbol(",")) keys.push_back(parse_expression());
        items[1] = make(ExprKind::tuple, at, std::move(keys));
    }
    if (!slice && !items[1])
        tokens_.fail_here("expected an expression, found " + tokens_.describe());
    tokens_.expect_symbol("]");
    while (slice && items.size() < 4) items.push_back(nullptr);
    return make(slice ? ExprKind::slice : ExprKind::subscript, at, std::move(items));
}

std::vector<Argument> ExpressionParser::parse_arguments() {
    std::vector<Argument> arguments;
    bool named = false;
    tokens_.expect_symbol("(");
    while (!tokens_.is_symbol(")") && !tokens_.failed()) {
        if (!arguments.empty()) tokens_.expect_symbol(",");
        if (tokens_.is_symbol(")")) break;
        Argument argument;
        if (tokens_.skip_symbol("**")) {
            argument.kind = Argument::Kind::star_star;
        } else if (tokens_.skip_symbol("*")) {
            argument.kind = Argument::Kind::star;
        } else if (tokens_.is(TokenType::name) && tokens_.is_symbol("=", 1)) {
            argument.kind = Argument::Kind::keyword;
            argument.name = tokens_.take().value;
            tokens_.take();
        }
        if (argument.kind == Argument::Kind::positional && named) {
            tokens_.fail_here("a positional argument follows a named one");
        }
        named = named || argument.kind != Argument::Kind::positional;
        argument.value = parse_expression();
        arguments.push_back(std::move(argument));
    }
    tokens_.expect_symbol(")");
    return arguments;
}

ExprPtr ExpressionParser::parse_call(ExprPtr callee) {
    const Position at = tokens_.peek().at;
    std::vector<ExprPtr> items;
    items.push_back(std::move(callee));
    ExprPtr expr = make(ExprKind::call, at, std::move(items));
    expr->arguments = parse_arguments();
    settle_depth(*expr);
    return expr;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr input) {
    const Position at = tokens_.peek().at;
    std::string name = tokens_.expect_name("the name of a filter");
    while (tokens_.skip_symbol(".")) name += "." + tokens_.expect_name("the name of a filter");
    std::vector<ExprPtr> items;
    items.push_back(std::move(input));
    ExprPtr expr = make(ExprKind::filter, at, std::move(items));
    expr->name = std::move(name);
    if (tokens_.is_symbol("(")) expr->arguments = parse_arguments();
    settle_depth(*expr);
    return expr;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input, bool first_bar_taken) {
    if (!first_bar_taken) tokens_.expect_symbol("|");
    ExprPtr node = parse_filter(std::move(input));
    while (tokens_.skip_symbol("|")) node = parse_filter(std::move(node));
    return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr node) {
    const Position at = tokens_.peek().at;
    const bool negated = tokens_.skip_name("not");
    std::string name = tokens_.expect_name("the name of a test");
    while (tokens_.skip_symbol(".")) name += "." + tokens_.expect_name("the name of a test");
    std::vector<ExprPtr> items;
    items.push_back(std::move(node));
    ExprPtr expr = make(ExprKind::test, at, std::move(items));
    expr->name = std::move(name);
    // A test takes one argument without parentheses: `x is divisibleby 3`.
    const TokenType next = tokens_.peek().type;
    const bool value = next == TokenType::name || next == TokenType::string ||
                       next == TokenType::integer || next == TokenType::real ||
                       tokens_.is_symbol("[") || tokens_.is_symbol("{");
    const bool ends = tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
    if (tokens_.is_symbol("(")) {
        expr->arguments = parse_arguments();
    } else if (value && !ends) {
        if (tokens_.is_name("is")) tokens_.fail_here("tests cannot be chained with 'is'");
        expr->arguments.push_back({Argument::Kind::positional, "", parse_postfix(parse_primary())});
    }
    settle_depth(*expr);
    if (!negated) return expr;
    std::vector<ExprPtr> inner;
    inner.push_back(std::move(expr));
    return make(ExprKind::not_, at, std::move(inner));
}

Target ExpressionParser::parse_one_target(bool with_namespace) {
    Target target;
    target.at = tokens_.peek().at;
    if (tokens_.skip_symbol("(")) {
        target = parse_target(with_namespace, {});
        tokens_.expect_symbol(")");
        return target;
    }
    const std::string name = tokens_.expect_name("a name to assign to");
    constexpr std::string_view kReserved[] = {"true", "True", "false", "False", "none", "None"};
    for (const std::string_view reserved : kReserved) {
        if (name == reserved) tokens_.fail(target.at, "cannot assign to '" + name + "'");
    }
    target.symbol = symbols_.intern(name);
    if (with_namespace && tokens_.skip_symbol(".")) {
        target.kind = Target::Kind::attribute;
        target.attribute = tokens_.expect_name("the name of an attribute");
    }
    return target;
}

Target ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
    if (++depth_ > kTreeDepthMax)
        tokens_.fail_here("the nesting is deeper than " + std::to_string(kTreeDepthMax));
    Target first = parse_one_target(with_namespace);
    if (tokens_.is_symbol(",")) {
        Target tuple;
        tuple.kind = Target::Kind::tuple;
        tuple.at = first.at;
        tuple.parts.push_back(std::move(first));
        while (tokens_.skip_symbol(",") && !tokens_.failed()) {
            if (at_tuple_end(end_name) || tokens_.is_symbol("=")) break;
            tuple.parts.push_back(parse_one_target(with_namespace));
        }
        first = std::move(tuple);
    }
    --depth_;
    return first;
}

}  // namespace strata::serve::jinja
