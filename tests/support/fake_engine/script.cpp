// Reads the script of a fake engine.
#include "tests/support/fake_engine/script.hpp"

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace strata::fake {

namespace {

constexpr int kBadScriptStatus = 64;

bool opens_block(const std::string& verb) {
    return verb == "repeat" || verb == "on" || verb == "from";
}

Statement split(const std::string& line) {
    Statement statement;
    std::istringstream in(line);
    in >> statement.verb;
    for (std::string word; in >> word;) statement.words.push_back(word);
    const std::size_t at = line.find(statement.verb) + statement.verb.size();
    statement.rest = at < line.size() ? line.substr(at + 1) : "";
    return statement;
}

std::vector<Statement> parse_block(std::istringstream& in, bool nested) {
    std::vector<Statement> out;
    for (std::string line; std::getline(in, line);) {
        const std::size_t first = line.find_first_not_of(" \t");
        if (first == std::string::npos || line[first] == '#') continue;
        Statement statement = split(line.substr(first));
        if (statement.verb == "end") {
            if (!nested) bad_script("end without repeat, on or from");
            return out;
        }
        if (opens_block(statement.verb)) statement.block = parse_block(in, true);
        out.push_back(std::move(statement));
    }
    if (nested) bad_script("a block without end");
    return out;
}

}  // namespace

void bad_script(const std::string& why) {
    std::fprintf(stderr, "fake engine: %s\n", why.c_str());
    std::exit(kBadScriptStatus);
}

std::vector<Statement> parse_script(const std::string& text) {
    std::istringstream in(text);
    return parse_block(in, false);
}

std::string unescape(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char kind = text[++i];
        if (kind == 'n') {
            out += '\n';
        } else if (kind == 'r') {
            out += '\r';
        } else if (kind == '\\') {
            out += '\\';
        } else if (kind == 'x' && i + 2 < text.size()) {
            out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
            i += 2;
        } else {
            bad_script("unknown escape in raw");
        }
    }
    return out;
}

}  // namespace strata::fake
