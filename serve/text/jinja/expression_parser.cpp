// Recursive descent, one function a level of precedence, in the order Jinja has them.
#include "serve/text/jinja/expression_parser.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace strata::serve::jinja {
namespace {

std::vector<ExprPtr> two(ExprPtr a, ExprPtr b) {
    std::vector<ExprPtr> items;
    items.push_back(std::move(a));
    items.push_back(std::move(b));
    return items;
}

std::vector<ExprPtr> one(ExprPtr a) {
    std::vector<ExprPtr> items;
    items.push_back(std::move(a));
    return items;
}

// Ends the descent of too deep a nesting while it lives.
class Level {
  public:
    Level(TokenReader& tokens, int& depth) : depth_(depth) {
        if (++depth_ > kTreeDepthMax) {
            tokens.fail_here("the nesting is deeper than " + std::to_string(kTreeDepthMax));
        }
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

  private:
    int& depth_;
};

}  // namespace

Symbol Symbols::intern(std::string_view name) {
    if (const auto found = index_.find(name); found != index_.end()) return found->second;
    names_.push_back(std::make_unique<const std::string>(name));
    read_.push_back(false);
    const auto symbol = static_cast<Symbol>(names_.size() - 1);
    index_.emplace(*names_.back(), symbol);
    return symbol;
}

Symbol Symbols::find(std::string_view name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? kNoSymbol : found->second;
}

bool Symbols::reads(std::string_view name) const {
    const Symbol symbol = find(name);
    return symbol != kNoSymbol && read_[symbol];
}

Symbol ExpressionParser::read_symbol(const std::string& name) {
    const Symbol symbol = symbols_.intern(name);
    symbols_.note_read(symbol);
    reads.varargs = reads.varargs || name == "varargs";
    reads.kwargs = reads.kwargs || name == "kwargs";
    reads.caller = reads.caller || name == "caller";
    return symbol;
}

void ExpressionParser::settle_depth(Expr& expr) {
    for (const ExprPtr& item : expr.items) {
        if (item) expr.depth = std::max(expr.depth, 1 + item->depth);
    }
    for (const Argument& argument : expr.arguments) {
        if (argument.value) expr.depth = std::max(expr.depth, 1 + argument.value->depth);
    }
    if (expr.depth > kTreeDepthMax) {
        tokens_.fail(expr.at,
                     "the expression is nested deeper than " + std::to_string(kTreeDepthMax));
    }
}

ExprPtr ExpressionParser::make(ExprKind kind, Position at, std::vector<ExprPtr> items) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->at = at;
    expr->items = std::move(items);
    settle_depth(*expr);
    return expr;
}

ExprPtr ExpressionParser::make_constant(Position at, Object value) {
    ExprPtr expr = make(ExprKind::constant, at);
    expr->constant = std::move(value);
    return expr;
}

ExprPtr ExpressionParser::parse_expression(bool with_conditional) {
    const Level level(tokens_, depth_);
    ExprPtr value = parse_or();
    while (with_conditional && tokens_.is_name("if")) {
        const Position at = tokens_.take().at;
        std::vector<ExprPtr> items = two(std::move(value), parse_or());
        items.push_back(tokens_.skip_name("else") ? parse_expression() : nullptr);
        value = make(ExprKind::conditional, at, std::move(items));
    }
    return value;
}

ExprPtr ExpressionParser::parse_or() {
    ExprPtr left = parse_and();
    while (tokens_.is_name("or")) {
        const Position at = tokens_.take().at;
        ExprPtr right = parse_and();
        left = make(ExprKind::or_, at, two(std::move(left), std::move(right)));
    }
    return left;
}

ExprPtr ExpressionParser::parse_and() {
    ExprPtr left = parse_not();
    while (tokens_.is_name("and")) {
        const Position at = tokens_.take().at;
        ExprPtr right = parse_not();
        left = make(ExprKind::and_, at, two(std::move(left), std::move(right)));
    }
    return left;
}

ExprPtr ExpressionParser::parse_not() {
    const Level level(tokens_, depth_);
    if (!tokens_.is_name("not")) return parse_compare();
    const Position at = tokens_.take().at;
    return make(ExprKind::not_, at, one(parse_not()));
}

std::optional<CompareOp> ExpressionParser::take_compare() {
    static constexpr std::pair<std::string_view, CompareOp> kSymbols[] = {
        {"==", CompareOp::equal},      {"!=", CompareOp::unequal}, {"<", CompareOp::less},
        {"<=", CompareOp::less_equal}, {">", CompareOp::greater},  {">=", CompareOp::greater_equal},
    };
    for (const auto& [symbol, op] : kSymbols) {
        if (tokens_.skip_symbol(symbol)) return op;
    }
    if (tokens_.skip_name("in")) return CompareOp::in;
    const Token& after = tokens_.peek(1);
    if (tokens_.is_name("not") && after.type == TokenType::name && after.value == "in") {
        tokens_.take();
        tokens_.take();
        return CompareOp::not_in;
    }
    return std::nullopt;
}

ExprPtr ExpressionParser::parse_compare() {
    const Position at = tokens_.peek().at;
    std::vector<ExprPtr> items = one(parse_sum());
    std::vector<CompareOp> compares;
    while (const auto op = take_compare()) {
        compares.push_back(*op);
        items.push_back(parse_sum());
    }
    if (compares.empty()) return std::move(items[0]);
    ExprPtr expr = make(ExprKind::compare, at, std::move(items));
    expr->compares = std::move(compares);
    return expr;
}

ExprPtr ExpressionParser::parse_sum() {
    ExprPtr left = parse_concat();
    while (tokens_.is_symbol("+") || tokens_.is_symbol("-")) {
        const Token token = tokens_.take();
        ExprPtr right = parse_concat();
        left = make(ExprKind::binary, token.at, two(std::move(left), std::move(right)));
        left->op = token.value == "+" ? BinaryOp::add : BinaryOp::subtract;
    }
    return left;
}

ExprPtr ExpressionParser::parse_concat() {
    const Position at = tokens_.peek().at;
    std::vector<ExprPtr> items = one(parse_product());
    while (tokens_.skip_symbol("~")) items.push_back(parse_product());
    if (items.size() == 1) return std::move(items[0]);
    return make(ExprKind::concat, at, std::move(items));
}

ExprPtr ExpressionParser::parse_product() {
    static constexpr std::pair<std::string_view, BinaryOp> kSymbols[] = {
        {"*", BinaryOp::multiply},
        {"/", BinaryOp::divide},
        {"//", BinaryOp::floor_divide},
        {"%", BinaryOp::modulo}};
    ExprPtr left = parse_power();
    while (true) {
        const auto* found =
            std::find_if(std::begin(kSymbols), std::end(kSymbols),
                         [this](const auto& s) { return tokens_.is_symbol(s.first); });
        if (found == std::end(kSymbols)) return left;
        const Position at = tokens_.take().at;
        ExprPtr right = parse_power();
        left = make(ExprKind::binary, at, two(std::move(left), std::move(right)));
        left->op = found->second;
    }
}

ExprPtr ExpressionParser::parse_power() {
    ExprPtr left = parse_unary(true);
    while (tokens_.is_symbol("**")) {
        const Position at = tokens_.take().at;
        ExprPtr right = parse_unary(true);
        left = make(ExprKind::binary, at, two(std::move(left), std::move(right)));
        left->op = BinaryOp::power;
    }
    return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
    const Level level(tokens_, depth_);
    const Position at = tokens_.peek().at;
    ExprPtr node;
    if (tokens_.skip_symbol("-")) {
        node = make(ExprKind::negate, at, one(parse_unary(false)));
    } else if (tokens_.skip_symbol("+")) {
        node = make(ExprKind::plus, at, one(parse_unary(false)));
    } else {
        node = parse_primary();
    }
    node = parse_postfix(std::move(node));
    return with_filters ? parse_filter_or_test(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
    const Token token = tokens_.peek();
    switch (token.type) {
        case TokenType::name:
            tokens_.take();
            return parse_name(token);
        case TokenType::integer:
        case TokenType::real:
            tokens_.take();
            return parse_number(token);
        case TokenType::string: {
            std::string value;
            while (tokens_.is(TokenType::string)) value += tokens_.take().value;
            return make_constant(token.at, std::make_shared<const Text>(nullptr, std::move(value),
                                                                        std::vector<Mark>{}));
        }
        case TokenType::symbol:
            if (tokens_.skip_symbol("(")) return parse_parenthesis(token.at);
            if (tokens_.skip_symbol("[")) return parse_list(token.at);
            if (tokens_.skip_symbol("{")) return parse_dict(token.at);
            break;
        case TokenType::text:
        case TokenType::variable_begin:
        case TokenType::variable_end:
        case TokenType::block_begin:
        case TokenType::block_end:
        case TokenType::end:
            break;
    }
    tokens_.fail_here("expected an expression, found " + tokens_.describe());
    return make(ExprKind::constant, token.at);
}

ExprPtr ExpressionParser::parse_name(const Token& token) {
    const std::string& name = token.value;
    if (name == "true" || name == "True") return make_constant(token.at, true);
    if (name == "false" || name == "False") return make_constant(token.at, false);
    if (name == "none" || name == "None") return make_constant(token.at, None{});
    ExprPtr expr = make(ExprKind::variable, token.at);
    expr->symbol = read_symbol(name);
    expr->name = name;
    return expr;
}

ExprPtr ExpressionParser::parse_number(const Token& token) {
    const char* begin = token.value.data();
    const char* end = begin + token.value.size();
    if (token.type == TokenType::real) {
        double value = 0;
        const auto read = std::from_chars(begin, end, value);
        // Out of range is Python's infinity or zero; from_chars leaves the value alone there.
        if (read.ec == std::errc::result_out_of_range)
            tokens_.fail(token.at, "the number is out of range");
        return make_constant(token.at, value);
    }
    int base = 10;
    if (token.value.size() > 1 && token.value[0] == '0') {
        const char kind = static_cast<char>(token.value[1] | 0x20);
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        if (base != 10) begin += 2;
    }
    std::int64_t value = 0;
    const auto read = std::from_chars(begin, end, value, base);
    if (read.ec != std::errc() || read.ptr != end)
        tokens_.fail(token.at, "the number is not valid or out of range");
    return make_constant(token.at, value);
}

ExprPtr ExpressionParser::parse_parenthesis(Position at) {
    if (tokens_.skip_symbol(")")) return make(ExprKind::tuple, at);
    ExprPtr inner = parse_tuple(true);
    tokens_.expect_symbol(")");
    return inner;
}

ExprPtr ExpressionParser::parse_list(Position at) {
    std::vector<ExprPtr> items;
    while (!tokens_.is_symbol("]") && !tokens_.failed()) {
        if (!items.empty()) tokens_.expect_symbol(",");
        if (tokens_.is_symbol("]")) break;
        items.push_back(parse_expression());
    }
    tokens_.expect_symbol("]");
    return make(ExprKind::list, at, std::move(items));
}

ExprPtr ExpressionParser::parse_dict(Position at) {
    std::vector<ExprPtr> items;
    while (!tokens_.is_symbol("}") && !tokens_.failed()) {
        if (!items.empty()) tokens_.expect_symbol(",");
        if (tokens_.is_symbol("}")) break;
        items.push_back(parse_expression());
        tokens_.expect_symbol(":");
        items.push_back(parse_expression());
    }
    tokens_.expect_symbol("}");
    return make(ExprKind::dict, at, std::move(items));
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
    return tokens_.is(TokenType::variable_end) || tokens_.is(TokenType::block_end) ||
           tokens_.is_symbol(")") || tokens_.is(TokenType::end) ||
           (!end_name.empty() && tokens_.is_name(end_name));
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, std::string_view end_name) {
    const Position at = tokens_.peek().at;
    std::vector<ExprPtr> items;
    bool tuple = false;
    while (!tokens_.failed()) {
        if (!items.empty()) tokens_.expect_symbol(",");
        if (at_tuple_end(end_name)) break;
        items.push_back(parse_expression(with_conditional));
        if (!tokens_.is_symbol(",")) break;
        tuple = true;
    }
    if (items.empty()) tokens_.fail_here("expected an expression, found " + tokens_.describe());
    if (!tuple && !items.empty()) return std::move(items[0]);
    return make(ExprKind::tuple, at, std::move(items));
}

}  // namespace strata::serve::jinja
