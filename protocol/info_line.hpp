// INFO: what the engine is, names only; once before READY and again whenever a value changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kInfoVerb = "INFO";

inline constexpr std::int64_t kProtocolVersion = 1;

// An absent name is absent, never 0. Numbers are >= 0. A name that is empty text is not written.
struct InfoLine {
    std::optional<std::int64_t> protocol;  // major version; another one is not to be talked to
    std::optional<std::int64_t> context_tokens;  // name: context
    std::optional<std::int64_t> vocab;           // entries of the vocabulary
    std::optional<std::string> kv;               // how K/V rows are stored: f16, f32, int8
    std::optional<std::int64_t> page_tokens;
    std::optional<std::string> spec;    // how drafts are made; off
    std::optional<std::int64_t> batch;  // lanes
    std::optional<std::int64_t> vram_free_mib;
    std::optional<std::string> device;
    std::optional<std::int64_t> weights_mib;
    std::optional<std::string> arch;                 // general.architecture of the model file
    std::optional<std::string> quant;                // the weights' element type
    std::optional<std::string> steer;                // a name; empty = no steering (0 on the wire)
    std::optional<std::int64_t> prompt_cache;        // checkpoints kept besides the tail
    std::optional<std::int64_t> prompt_cache_every;  // tokens; 0 = none
    std::optional<std::int64_t> prompt_cache_root;   // tokens; 0 = none
    std::optional<std::int64_t> conversation_cache_mib;  // the budget in effect; 0 = off
    std::optional<std::int64_t> conversation_cache_slots;
    std::optional<std::int64_t> conversation_cache_min_free_mib;
    std::optional<std::int64_t> memory_limit_mib;  // 0 = none
    std::optional<std::int64_t> device_pool_mib;   // 0 = off
    std::optional<std::int64_t> kv_bytes_per_token;
    std::optional<std::int64_t> state_bytes;  // running state of one conversation
    std::optional<std::string> model_id;      // content fingerprint
    std::optional<std::string> engine;        // version
    friend bool operator==(const InfoLine&, const InfoLine&) = default;
};

std::string format(const InfoLine& line);
Parsed<InfoLine> parse_info_line(std::string_view line);

// What is known after `update` came: its names over those of `known`.
InfoLine merged(InfoLine known, const InfoLine& update);

}  // namespace strata::protocol
