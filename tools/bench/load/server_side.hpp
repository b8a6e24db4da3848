// The server under load, in a process of its own: the http and api rooms of the product around a
// LanesEngine, with the demo model's text side.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "serve/text/text_model.hpp"
#include "tools/bench/load/lanes_engine.hpp"

namespace strata::bench {

struct Words {
    std::vector<std::int32_t> ids;
    std::vector<std::string> texts;  // of the same tokens: letters alone
};
Words words_of(const serve::TextModel& text);

struct ServerUnderLoad {
    pid_t pid = -1;
    std::uint16_t port = 0;
};

// Forks. The child serves until it is killed.
ServerUnderLoad start_server(const serve::TextModel& text, const Words& words, SaidTimes said,
                             std::chrono::microseconds between_tokens);

// Open ones of a process; 0 when it is gone.
std::size_t descriptors_of(pid_t pid);

// KiB; 0 when the process is gone.
long resident_kib(pid_t pid);

}  // namespace strata::bench
