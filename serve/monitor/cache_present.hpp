// The conversation cache as it is now: the newest word of the running engine about each figure,
// whichever line said it. Owns what each line says about it; pure.
//
//   DONE with fields 15-19  all of it, as the request left it
//   CONV                    one step: entries more or less, the bytes it took or gave back, counts
//   PRESSURE                parked entries, the reading, and that retained K/V is gone
//   an answer to CACHE      parked entries
//
// A figure that a line does not carry stays as the last one said it; one that none has said is
// absent.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/pressure_line.hpp"

namespace strata::serve {

struct CachePresent {
    std::optional<double> as_of_s;         // when the newest of these was said; since 1970
    std::optional<std::int64_t> parked;    // conversations
    std::optional<std::int64_t> bytes;     // parked ones and retained K/V
    std::optional<std::int64_t> retained;  // bytes, part of those
    // Totals since the engine's start:
    std::optional<std::int64_t> evictions;
    std::optional<std::int64_t> evicted_budget;
    std::optional<std::int64_t> evicted_slots;
    std::optional<std::int64_t> released;
    std::optional<std::int64_t> superseded;
    std::optional<std::int64_t> lost;
    std::optional<std::int64_t> checkpoints;    // of the live conversation
    std::optional<std::int64_t> available_mib;  // the last reading
    // In the context when the last request ended; an engine without a cache says it as well.
    std::optional<std::int64_t> live_tokens;
    friend bool operator==(const CachePresent&, const CachePresent&) = default;

    // Bytes of parked conversations alone.
    std::optional<std::int64_t> parked_bytes() const;
};

// A whole answer to CACHE.
struct ParkedList {
    std::int64_t parked = 0;
};

CachePresent after(const CachePresent& before, const protocol::DoneLine& line, double time_s);
CachePresent after(const CachePresent& before, const protocol::ConvLine& line, double time_s);
CachePresent after(const CachePresent& before, const protocol::PressureLine& line, double time_s);
CachePresent after(const CachePresent& before, const ParkedList& list, double time_s);

}  // namespace strata::serve
