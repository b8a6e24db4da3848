// What to say when a device has too little memory: what is needed, what is free, and a smaller
// choice that works. Pure functions of sizes; what asks is the load (before it reads weights) and
// the engine (when a conversation grows).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/model/geometry.hpp"

namespace strata {

struct DeviceMemoryNeed {
    std::uint64_t weights_bytes = 0;  // that are still to be brought there
    std::uint64_t fixed_bytes = 0;    // besides them, whatever the context
    Position context_tokens = 0;      // that is wanted
    KvChoice kv;                      // with these K/V rows
    std::vector<KvChoice> others;     // other types that there are
    std::uint64_t free_bytes = 0;     // on the device; 0 = unknown
};

// Bytes that everything takes: K/V in whole pages.
std::uint64_t needed_bytes(const DeviceMemoryNeed& need);

// What is needed and free, in words, and the largest --max-context that fits with these K/V rows,
// and with which others a larger one does. Absent: all of it fits, or what is free is unknown.
std::optional<std::string> memory_advice(const DeviceMemoryNeed& need);

// "needed are 5,120 MiB (...)" alone.
std::string need_text(const DeviceMemoryNeed& need);

// For a model of `geometry` that holds so many K/V pages already and wants `rows` rows in all.
DeviceMemoryNeed growth_need(const Geometry& geometry, std::size_t pages_held, Position rows,
                             std::uint64_t free_bytes);

}  // namespace strata
