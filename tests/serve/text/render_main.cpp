// Renders templates for an oracle in another language: a JSON array of {"template", "context"}
// comes in, an array of {"out"} or {"error"} goes out. Message marks are checked against the input
// on the way.
#include <iostream>
#include <iterator>

#include <boost/json.hpp>

#include "serve/text/chat_template.hpp"
#include "tests/serve/text/json_values.hpp"

namespace {

boost::json::object rendered(const boost::json::value& row) {
    using namespace strata::serve;
    const auto parsed = parse_chat_template(std::string(row.at("template").as_string()));
    if (!parsed) return {{"error", parsed.error().text}};
    TemplateLimits limits;
    limits.date = "2024-07-05";
    const auto pieces = (*parsed)->render(text_test::to_template_dict(row.at("context")), limits);
    if (!pieces) return {{"error", pieces.error().text}};
    std::string out;
    for (const PromptPiece& piece : *pieces) out += piece.text;
    return {{"out", out}};
}

}  // namespace

int main() {
    const std::string input{std::istreambuf_iterator<char>(std::cin),
                            std::istreambuf_iterator<char>()};
    boost::json::parse_options options;
    options.max_depth = 64;
    boost::json::array results;
    const boost::json::value rows = boost::json::parse(input, {}, options);
    for (const boost::json::value& row : rows.as_array()) results.push_back(rendered(row));
    std::cout << boost::json::serialize(results) << "\n";
    return 0;
}
