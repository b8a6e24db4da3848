// What a person reads while the server starts and when it is ready. Pure text.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace strata::serve {

struct LoadProgress {
    double share = 0;  // 0..1
    std::int64_t bytes_total = 0;
    std::chrono::duration<double> elapsed{0};
    std::optional<std::chrono::seconds> left;
};

// "[########      ]  42 %  1.2 GB/s  3 s left"
std::string load_text(const LoadProgress& progress);

// "http://127.0.0.1:8080"; localhost when listening on every address.
std::string address_text(const std::string& host, std::uint16_t port);

struct ReadyFacts {
    std::string model;
    std::string host;
    std::uint16_t port = 0;
    std::int64_t context_tokens = 0;
    bool key_set = false;
    bool has_page = false;
};

// Several lines: the address, the base URLs for clients, whether a key is needed.
std::string ready_text(const ReadyFacts& facts);

}  // namespace strata::serve
