// How the tensors of a model file are called. The parts of a block's names stand with the
// architecture that uses them; here is what they have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::string_view kTokenEmbedding = "token_embd.weight";  // {width, vocabulary}
inline constexpr std::string_view kOutputNorm = "output_norm.weight";     // {width}
inline constexpr std::string_view kOutput = "output.weight";  // {width, vocabulary}; absent = tied
inline constexpr std::string_view kRopeFactors =
    "rope_freqs.weight";  // {rope dims / 2}; llama-3 only

// "blk.3.attn_q.weight" of block 3 and part "attn_q.weight".
inline std::string block_tensor(std::int64_t block, std::string_view part) {
    return "blk." + std::to_string(block) + "." + std::string(part);
}

}  // namespace strata
