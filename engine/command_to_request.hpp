// From a line's struct to what the engine understands. The rooms below engine/*.cpp know no
// protocol.
#pragma once

#include <optional>

#include "protocol/err_line.hpp"
#include "protocol/gen_command.hpp"
#include "strata/engine.hpp"

namespace strata {

// A part of `command` that this engine does not have yet (grammar); none when it has all.
[[nodiscard]] std::optional<protocol::ErrLine> unsupported_part(
    const protocol::GenCommand& command);

// Takes the ids over.
[[nodiscard]] GenerateRequest request_of(protocol::GenCommand command, TimePoint received);

}  // namespace strata
