// The conversation cache as it is now: the newest word of the running engine about each figure,
// whichever line said it. Owns what each line says about it; pure.
//
//   DONE with fields 15-19    all of it, as the request left it
//   CONV, PRESSURE, CACHE end what is held after the step; a CONV counts as one of its kind
//   RESUME                    who is live, and what is held when reading begins
//
// A figure that a line does not carry stays as the last one said it; one that none has said is
// absent. Nothing is added up here but counts: what is held is the engine's own sum.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/pressure_line.hpp"
#include "protocol/resume_line.hpp"

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
    std::int64_t skipped = 0;  // not parked, lost ones included: DONE has no such count
    std::optional<std::int64_t> checkpoints;    // of the live conversation
    std::optional<std::int64_t> available_mib;  // the last reading
    // In the context when the last request ended; an engine without a cache says it as well.
    std::optional<std::int64_t> live_tokens;
    // Who is in the context; absent also from the park of the last one until the next one's RESUME.
    std::optional<std::uint64_t> live_conv;
    friend bool operator==(const CachePresent&, const CachePresent&) = default;

    // Bytes of parked conversations alone.
    std::optional<std::int64_t> parked_bytes() const;
};

CachePresent after(const CachePresent& before, const protocol::DoneLine& line, double time_s);
CachePresent after(const CachePresent& before, const protocol::ConvLine& line, double time_s);
CachePresent after(const CachePresent& before, const protocol::PressureLine& line, double time_s);
CachePresent after(const CachePresent& before, const protocol::HeldFigures& held, double time_s);
CachePresent after(const CachePresent& before, const protocol::ResumeLine& line, double time_s);

}  // namespace strata::serve
