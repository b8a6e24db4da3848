// SHA-256 of what a conversation is made of, for proofs that two roads lead to the same state
// (PROTOCOL.md, hash=1). Reads the device; changes nothing.
#pragma once

#include <span>
#include <string>

#include "strata/state/live_session.hpp"

namespace strata {

// Lower-case hex of the logits as little-endian f32.
[[nodiscard]] std::string logits_sha256(std::span<const float> logits);

// Lower-case hex over: the row count n as u64 little-endian; for each attention layer in order its
// K rows 0..n-1, then its V rows, as stored; for each recurrent layer in order the matrix state,
// then the convolution window. Precondition: the session is VALID.
[[nodiscard]] std::string state_sha256(const LiveSession& session);

}  // namespace strata
