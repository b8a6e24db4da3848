// GEN: one request: read the prompt, write the answer. `GEN max_new name=value... [ids=]1,2,3`
// What the values mean is PROTOCOL.md; what is in range is checked here and nothing is clamped.
// Whether an id is in the vocabulary and whether prompt + max_new fit the context is the engine's
// to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kGenVerb = "GEN";

inline constexpr std::int64_t kTokenCountMax = 2147483647;  // ids and positions are 31 bits wide
inline constexpr std::size_t kLabelCharactersMax = 32;      // a label is shown in lists
inline constexpr std::size_t kStopIdsMax = 1024;            // each is compared with every token

struct GenCommand {
    std::int64_t max_new = 0;  // 0..kTokenCountMax; 0 reads the prompt and keeps the state
    std::uint64_t id = 0;
    double temperature = 0;        // >= 0; 0 = greedy
    double top_p = 1;              // (0, 1]
    std::int32_t top_k = 0;        // >= 0; 0 = off
    double min_p = 0;              // [0, 1]
    double repeat_penalty = 1;     // > 0
    double frequency_penalty = 0;  // finite, as the next
    double presence_penalty = 0;
    std::int32_t penalty_last_n = 64;  // tokens, >= 0
    std::uint64_t seed = 0;
    std::vector<std::int32_t> stop;  // ids that end the answer, besides the model file's own
    bool ignore_eos = false;
    std::int64_t root = 0;  // tokens of the system prompt and tools; 0 = none. Always written.
    std::optional<std::string> steer;  // absent: the engine's own setting; empty: off; else a name
    std::string think;                 // the level's name, for reports; empty = none
    bool ckpt = true;
    std::int64_t pin = 0;       // tokens; 0 = none
    std::string label;          // at most kLabelCharactersMax; empty = none
    std::int32_t logprobs = 0;  // 0..kTopLogprobsMax entries of top=; 0 = no lp= either
    std::string grammar;        // a handle; empty = none
    bool hash = false;
    std::vector<std::int32_t> ids;  // the prompt; at least one
    friend bool operator==(const GenCommand&, const GenCommand&) = default;
};

std::string format(const GenCommand& command);
Parsed<GenCommand> parse_gen_command(std::string_view line);

}  // namespace strata::protocol
