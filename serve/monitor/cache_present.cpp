// See serve/monitor/cache_present.hpp.
#include "serve/monitor/cache_present.hpp"

#include <limits>

namespace strata::serve {

namespace {

// A count that nobody has said does not move.
void count_one(std::optional<std::int64_t>& figure) {
    if (figure && *figure < std::numeric_limits<std::int64_t>::max()) ++*figure;
}

// Each figure that is said, as it is said.
void take(CachePresent& present, const protocol::HeldFigures& held) {
    if (held.parked) present.parked = held.parked;
    if (held.held) present.bytes = held.held;
    if (held.retained) present.retained = held.retained;
}

// The live conversation went to where the line says; who comes has not been said.
void leave(CachePresent& present, const protocol::ConvLine& line) {
    if (line.conv && line.conv == present.live_conv) present.live_conv.reset();
}

}  // namespace

std::optional<std::int64_t> CachePresent::parked_bytes() const {
    if (!bytes || !retained) return std::nullopt;
    return *bytes - *retained;
}

CachePresent after(const CachePresent& before, const protocol::DoneLine& line, double time_s) {
    CachePresent present = before;
    const std::int64_t taken_in = line.reused + line.prompt_read;
    if (taken_in > 0) present.live_tokens = taken_in + line.generated;
    if (line.conv) present.live_conv = line.conv;
    if (!line.cache_fields) return present;
    present.as_of_s = time_s;
    present.parked = line.cache_fields->parked;
    present.bytes = line.cache_fields->bytes;
    present.evictions = line.cache_fields->evictions;
    present.retained = line.retained;
    present.evicted_budget = line.evicted_budget;
    present.evicted_slots = line.evicted_slots;
    present.released = line.released;
    present.superseded = line.superseded;
    present.lost = line.lost;
    present.checkpoints = line.checkpoints;
    present.available_mib = line.available_mib;
    return present;
}

CachePresent after(const CachePresent& before, const protocol::ConvLine& line, double time_s) {
    CachePresent present = before;
    switch (line.kind) {
        case protocol::ConvKind::park:
            leave(present, line);
            break;
        case protocol::ConvKind::skip:
            leave(present, line);
            ++present.skipped;
            break;
        case protocol::ConvKind::restore:
            if (line.conv) present.live_conv = line.conv;
            break;
        case protocol::ConvKind::evict:
            count_one(present.evictions);
            count_one(line.reason == protocol::ConvReason::slots ? present.evicted_slots
                                                                 : present.evicted_budget);
            break;
        case protocol::ConvKind::release:
            count_one(present.released);
            break;
        case protocol::ConvKind::supersede:
            if (!line.entry) leave(present, line);  // never parked: it was the live one
            count_one(present.superseded);
            break;
        case protocol::ConvKind::lost:
            leave(present, line);
            count_one(present.lost);
            break;
        case protocol::ConvKind::drop:
        case protocol::ConvKind::borrow:
            break;
    }
    take(present, line.now);
    if (present != before) present.as_of_s = time_s;
    return present;
}

CachePresent after(const CachePresent& before, const protocol::PressureLine& line, double time_s) {
    CachePresent present = after(before, line.now, time_s);
    if (line.available_after_mib) present.available_mib = line.available_after_mib;
    return present;
}

CachePresent after(const CachePresent& before, const protocol::HeldFigures& held, double time_s) {
    CachePresent present = before;
    present.as_of_s = time_s;
    take(present, held);
    return present;
}

CachePresent after(const CachePresent& before, const protocol::ResumeLine& line, double time_s) {
    CachePresent present = before;
    if (line.conv) present.live_conv = line.conv;
    take(present, line.now);
    if (line.now != protocol::HeldFigures{}) present.as_of_s = time_s;
    return present;
}

}  // namespace strata::serve
