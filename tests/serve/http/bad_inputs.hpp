// Inputs that no server should mind: every one is wrong in one way, and is to cost its sender a
// typed error and nobody else anything. Made by rules, not by chance, so that a failure has a name.
#pragma once

#include <string>
#include <vector>

namespace strata::tests {

struct BadInput {
    std::string name;
    std::string bytes;            // a whole request, or what a client sent of it
    std::vector<int> statuses;    // what may be answered; 0 = the connection ends without a word
    bool ends_connection = true;  // framing is lost: nothing may follow on this connection
};

// At least 300. `body_bytes_max` is the server's --max-body-mib in bytes.
std::vector<BadInput> bad_inputs(std::size_t body_bytes_max);

}  // namespace strata::tests
