// The parsers' cursor over tokens and their one latched refusal: after the first one every look is
// at the end of the template, so that the descent unwinds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/text/jinja/lexer.hpp"

namespace strata::serve::jinja {

class TokenReader {
  public:
    explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    const Token& peek(std::size_t ahead = 0) const {
        const std::size_t at = refusal_ ? tokens_.size() - 1 : at_ + ahead;
        return at < tokens_.size() ? tokens_[at] : tokens_.back();
    }
    Token take() {
        Token token = peek();
        if (!refusal_ && at_ + 1 < tokens_.size()) ++at_;
        return token;
    }
    bool is(TokenType type) const { return peek().type == type; }
    bool is_symbol(std::string_view symbol, std::size_t ahead = 0) const {
        return peek(ahead).type == TokenType::symbol && peek(ahead).value == symbol;
    }
    bool is_name(std::string_view name) const {
        return is(TokenType::name) && peek().value == name;
    }
    bool skip_symbol(std::string_view symbol) {
        if (!is_symbol(symbol)) return false;
        take();
        return true;
    }
    bool skip_name(std::string_view name) {
        if (!is_name(name)) return false;
        take();
        return true;
    }
    void expect_symbol(std::string_view symbol) {
        if (!skip_symbol(symbol))
            fail_here("expected '" + std::string(symbol) + "', found " + describe());
    }
    std::string expect_name(const std::string& what) {
        if (is(TokenType::name)) return take().value;
        fail_here("expected " + what + ", found " + describe());
        return {};
    }
    void expect(TokenType type, const std::string& what) {
        if (is(type)) {
            take();
        } else {
            fail_here("expected " + what + ", found " + describe());
        }
    }

    void fail(Position at, const std::string& message) {
        if (!refusal_) refusal_ = refuse_at(at, message).error;
    }
    void fail_here(const std::string& message) { fail(peek().at, message); }
    bool failed() const { return refusal_.has_value(); }
    const Refusal& refusal() const { return *refusal_; }
    // The next token in words.
    std::string describe() const;

  private:
    std::vector<Token> tokens_;  // the last one is `end`
    std::size_t at_ = 0;
    std::optional<Refusal> refusal_;
};

}  // namespace strata::serve::jinja
