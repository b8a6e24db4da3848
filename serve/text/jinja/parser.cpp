// The grammar of statements.
#include "serve/text/jinja/parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "serve/text/jinja/expression_parser.hpp"

namespace strata::serve::jinja {
namespace {

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens)
        : tree_(std::make_unique<Tree>()),
          tokens_(std::move(tokens)),
          expressions_(tokens_, tree_->symbols) {}

    Result<std::unique_ptr<const Tree>> run() {
        tree_->body = parse_body({});
        if (tokens_.failed()) return Failure<Refusal>{tokens_.refusal()};
        return std::unique_ptr<const Tree>(std::move(tree_));
    }

  private:
    using StmtPtr = std::unique_ptr<Stmt>;
    using Ends = std::vector<std::string_view>;

    // Statements up to a block tag that begins with one of `ends`, whose name is not consumed.
    // Without ends: up to the end of the template.
    Body parse_body(const Ends& ends) {
        Body body;
        if (++depth_ > kTreeDepthMax) {
            tokens_.fail_here("blocks are nested deeper than " + std::to_string(kTreeDepthMax));
        }
        while (!tokens_.failed() && !tokens_.is(TokenType::end)) {
            const Token token = tokens_.peek();
            if (token.type == TokenType::block_begin) {
                const Token& name = tokens_.peek(1);
                if (std::find(ends.begin(), ends.end(), name.value) != ends.end() &&
                    name.type == TokenType::name) {
                    tokens_.take();
                    break;
                }
            }
            if (StmtPtr stmt = parse_piece()) body.push_back(std::move(stmt));
        }
        if (!ends.empty() && tokens_.is(TokenType::end)) {
            tokens_.fail_here("the template ends, expected '{% " + std::string(ends.back()) +
                              " %}'");
        }
        --depth_;
        return body;
    }

    // The body of a block with one end tag, which is consumed.
    Body parse_block_body(std::string_view end) {
        tokens_.expect(TokenType::block_end, "'%}'");
        Body body = parse_body({end});
        tokens_.take();
        tokens_.expect(TokenType::block_end, "'%}'");
        return body;
    }

    StmtPtr parse_piece() {
        const Token token = tokens_.take();
        StmtPtr stmt = make(StmtKind::text, token.at);
        if (token.type == TokenType::text) {
            stmt->data = token.value;
            return stmt;
        }
        if (token.type == TokenType::variable_begin) {
            stmt->kind = StmtKind::output;
            stmt->expr = expressions_.parse_tuple(true);
            tokens_.expect(TokenType::variable_end, "'}}'");
            return stmt;
        }
        const Token name = tokens_.peek();
        tokens_.expect_name("the name of a tag");
        return parse_tag(std::move(stmt), name);
    }

    StmtPtr make(StmtKind kind, Position at) {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = kind;
        stmt->at = at;
        return stmt;
    }

    StmtPtr parse_tag(StmtPtr stmt, const Token& name) {
        using Parse = void (Parser::*)(Stmt&);
        static constexpr std::array<std::pair<std::string_view, Parse>, 10> kTags = {{
            {"if", &Parser::parse_if},
            {"for", &Parser::parse_for},
            {"set", &Parser::parse_set},
            {"macro", &Parser::parse_macro},
            {"call", &Parser::parse_call_block},
            {"filter", &Parser::parse_filter_block},
            {"with", &Parser::parse_with},
            {"generation", &Parser::parse_generation},
            {"break", &Parser::parse_break},
            {"continue", &Parser::parse_continue},
        }};
        const auto* found = std::find_if(kTags.begin(), kTags.end(), [&name](const auto& tag) {
            return tag.first == name.value;
        });
        if (found == kTags.end()) {
            tokens_.fail(name.at, "the tag '" + name.value.substr(0, 40) + "' is not known here");
            return stmt;
        }
        (this->*found->second)(*stmt);
        return stmt;
    }

    void parse_if(Stmt& stmt) {
        stmt.kind = StmtKind::if_;
        while (!tokens_.failed()) {
            Branch branch;
            branch.condition = expressions_.parse_tuple(false);
            tokens_.expect(TokenType::block_end, "'%}'");
            branch.body = parse_body({"elif", "else", "endif"});
            stmt.branches.push_back(std::move(branch));
            if (!tokens_.skip_name("elif")) break;
        }
        if (tokens_.skip_name("else")) {
            tokens_.expect(TokenType::block_end, "'%}'");
            stmt.branches.push_back({nullptr, parse_body({"endif"})});
        }
        tokens_.take();
        tokens_.expect(TokenType::block_end, "'%}'");
    }

    void parse_for(Stmt& stmt) {
        stmt.kind = StmtKind::for_;
        stmt.target = expressions_.parse_target(false, "in");
        if (!tokens_.skip_name("in"))
            tokens_.fail_here("expected 'in', found " + tokens_.describe());
        stmt.expr = expressions_.parse_tuple(false, "recursive");
        if (tokens_.skip_name("if")) stmt.filter = expressions_.parse_expression();
        stmt.recursive = tokens_.skip_name("recursive");
        stmt.symbol = tree_->symbols.intern("loop");
        tokens_.expect(TokenType::block_end, "'%}'");
        ++loops_;
        stmt.body = parse_body({"else", "endfor"});
        --loops_;
        if (tokens_.skip_name("else")) {
            tokens_.expect(TokenType::block_end, "'%}'");
            stmt.else_body = parse_body({"endfor"});
        }
        tokens_.take();
        tokens_.expect(TokenType::block_end, "'%}'");
    }

    void parse_set(Stmt& stmt) {
        stmt.target = expressions_.parse_target(true, {});
        if (tokens_.skip_symbol("=")) {
            stmt.kind = StmtKind::set;
            stmt.expr = expressions_.parse_tuple(true);
            tokens_.expect(TokenType::block_end, "'%}'");
            return;
        }
        stmt.kind = StmtKind::set_block;
        if (tokens_.is_symbol("|")) stmt.expr = expressions_.parse_filters(nullptr, false);
        stmt.body = parse_block_body("endset");
    }

    // (a, b=1): the parameters of a macro or of a caller.
    void parse_parameters(MacroNode& macro) {
        tokens_.expect_symbol("(");
        while (!tokens_.is_symbol(")") && !tokens_.failed()) {
            if (!macro.parameters.empty()) tokens_.expect_symbol(",");
            if (tokens_.is_symbol(")")) break;
            Parameter parameter;
            parameter.name = tokens_.expect_name("the name of a parameter");
            parameter.symbol = tree_->symbols.intern(parameter.name);
            if (tokens_.skip_symbol("=")) {
                parameter.fallback = expressions_.parse_expression();
            } else if (!macro.parameters.empty() && macro.parameters.back().fallback) {
                tokens_.fail_here("a parameter without a default follows one with a default");
            }
            macro.parameters.push_back(std::move(parameter));
        }
        tokens_.expect_symbol(")");
    }

    // The body of a macro sees only its own loops, and notes which special names it reads.
    void parse_macro_body(MacroNode& macro, std::string_view end) {
        const SpecialReads outside = std::exchange(expressions_.reads, {});
        const int loops = std::exchange(loops_, 0);
        macro.body = parse_block_body(end);
        macro.reads_varargs = expressions_.reads.varargs;
        macro.reads_kwargs = expressions_.reads.kwargs;
        macro.reads_caller = expressions_.reads.caller;
        expressions_.reads = outside;
        loops_ = loops;
    }

    void parse_macro(Stmt& stmt) {
        stmt.kind = StmtKind::macro;
        stmt.macro = std::make_unique<MacroNode>();
        stmt.macro->name = tokens_.expect_name("the name of a macro");
        stmt.symbol = tree_->symbols.intern(stmt.macro->name);
        parse_parameters(*stmt.macro);
        parse_macro_body(*stmt.macro, "endmacro");
    }

    void parse_call_block(Stmt& stmt) {
        stmt.kind = StmtKind::call_block;
        stmt.macro = std::make_unique<MacroNode>();
        stmt.macro->name = "caller";
        if (tokens_.is_symbol("(")) parse_parameters(*stmt.macro);
        stmt.expr = expressions_.parse_expression();
        if (stmt.expr && stmt.expr->kind != ExprKind::call)
            tokens_.fail(stmt.at, "a call block needs a call");
        parse_macro_body(*stmt.macro, "endcall");
    }

    void parse_filter_block(Stmt& stmt) {
        stmt.kind = StmtKind::filter_block;
        stmt.expr = expressions_.parse_filters(nullptr, true);
        stmt.body = parse_block_body("endfilter");
    }

    void parse_with(Stmt& stmt) {
        stmt.kind = StmtKind::with;
        while (!tokens_.is(TokenType::block_end) && !tokens_.failed()) {
            if (!stmt.assignments.empty()) tokens_.expect_symbol(",");
            Target target = expressions_.parse_target(false, {});
            tokens_.expect_symbol("=");
            stmt.assignments.emplace_back(std::move(target), expressions_.parse_expression());
        }
        stmt.body = parse_block_body("endwith");
    }

    void parse_generation(Stmt& stmt) {
        stmt.kind = StmtKind::group;
        stmt.body = parse_block_body("endgeneration");
    }

    void parse_break(Stmt& stmt) { parse_jump(stmt, StmtKind::break_, "break"); }
    void parse_continue(Stmt& stmt) { parse_jump(stmt, StmtKind::continue_, "continue"); }
    void parse_jump(Stmt& stmt, StmtKind kind, const std::string& name) {
        stmt.kind = kind;
        if (loops_ == 0) tokens_.fail(stmt.at, "'" + name + "' outside a for loop");
        tokens_.expect(TokenType::block_end, "'%}'");
    }

    std::unique_ptr<Tree> tree_;
    TokenReader tokens_;
    ExpressionParser expressions_;
    int depth_ = 0;
    int loops_ = 0;  // for loops around the cursor, inside the current macro
};

}  // namespace

Result<std::unique_ptr<const Tree>> parse(std::string_view source) {
    auto tokens = tokenize(source);
    if (!tokens) return tokens.failure();
    return Parser(std::move(*tokens)).run();
}

}  // namespace strata::serve::jinja
