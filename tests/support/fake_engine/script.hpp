// The script of a fake engine: statements read from a file or from the command line into a flat
// list. Owns the grammar (fake_engine.cpp's head documents it), not the meaning of a statement.
#pragma once

#include <string>
#include <vector>

namespace strata::fake {

struct Statement {
    std::string verb;                // first word
    std::vector<std::string> words;  // the words after it
    std::string rest;                // everything after the verb and one space, unsplit
    std::vector<Statement> block;    // of repeat / on / from: the statements up to its `end`
};

// One statement per line; blank lines and lines that begin with '#' are skipped. An unknown verb is
// found when it is played, a missing or surplus `end` here: both end the program with status 64.
std::vector<Statement> parse_script(const std::string& text);

// Backslash escapes of `raw`: \n \r \\ \xHH.
std::string unescape(const std::string& text);

[[noreturn]] void bad_script(const std::string& why);

}  // namespace strata::fake
