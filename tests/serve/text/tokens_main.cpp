// Encodes texts with the vocabulary of a model file for tests in another language: a JSON array of
// {"text", "special"} comes in, an array of {"ids", "specials", "decoded"} goes out: the ids, how
// many of them are control or user-defined tokens, and whether they decode to the text.
#include <algorithm>
#include <iostream>
#include <iterator>

#include <boost/json.hpp>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/tokenizer.hpp"

namespace {

using namespace strata::serve;

boost::json::object encoded(const Tokenizer& tokenizer, const boost::json::value& row) {
    const std::string text(row.at("text").as_string());
    const auto special = row.at("special").as_bool() ? ParseSpecial::yes : ParseSpecial::no;
    const std::vector<TokenId> ids = tokenizer.encode(text, special);
    const auto specials = std::count_if(ids.begin(), ids.end(), [&](TokenId id) {
        return tokenizer.kind(id) == TokenKind::control ||
               tokenizer.kind(id) == TokenKind::user_defined;
    });
    return {{"ids", boost::json::array(ids.begin(), ids.end())},
            {"specials", specials},
            {"decoded", tokenizer.decode(ids) == text}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const auto header = strata::gguf::read_header(argv[1]);
    const auto tokenizer = header ? make_tokenizer(*header) : header.failure();
    if (!tokenizer) {
        std::cerr << tokenizer.error().text << "\n";
        return 1;
    }
    const std::string input{std::istreambuf_iterator<char>(std::cin),
                            std::istreambuf_iterator<char>()};
    boost::json::array results;
    const boost::json::value rows = boost::json::parse(input);
    for (const boost::json::value& row : rows.as_array()) {
        results.push_back(encoded(**tokenizer, row));
    }
    std::cout << boost::json::serialize(results) << "\n";
    return 0;
}
