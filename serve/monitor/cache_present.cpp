// See serve/monitor/cache_present.hpp.
#include "serve/monitor/cache_present.hpp"

#include <algorithm>

namespace strata::serve {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kMibMax = std::int64_t{1} << 40;  // more is no figure of a machine's RAM

// A figure that nobody has said does not move; none falls below 0.
void move(std::optional<std::int64_t>& figure, std::int64_t by) {
    std::int64_t sum = 0;
    if (!figure || __builtin_add_overflow(*figure, by, &sum)) return;
    figure = std::max<std::int64_t>(sum, 0);
}

// With nothing parked, all that is held is the live conversation's.
void settle(CachePresent& present) {
    if (present.parked == 0) present.retained = present.bytes;
    if (present.retained && present.bytes) {
        present.retained = std::min(*present.retained, *present.bytes);
    }
}

// A parked entry left; `line.bytes` is what that gave back.
void remove_entry(CachePresent& present, const protocol::ConvLine& line) {
    if (!line.entry) return;
    move(present.parked, -1);
    move(present.bytes, -std::max<std::int64_t>(line.bytes.value_or(0), 0));
    settle(present);
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
            move(present.parked, 1);
            move(present.bytes, std::max<std::int64_t>(line.bytes.value_or(0), 0));
            break;
        case protocol::ConvKind::restore:
            // Taken: its bytes are the live conversation's until its DONE says what is kept.
            move(present.parked, -1);
            break;
        case protocol::ConvKind::evict:
            remove_entry(present, line);
            move(present.evictions, 1);
            move(line.reason == protocol::ConvReason::slots ? present.evicted_slots
                                                            : present.evicted_budget,
                 1);
            break;
        case protocol::ConvKind::release:
            remove_entry(present, line);
            move(present.released, 1);
            break;
        case protocol::ConvKind::supersede:  // without an entry it was never parked
            remove_entry(present, line);
            move(present.superseded, 1);
            break;
        case protocol::ConvKind::drop:
            remove_entry(present, line);
            break;
        case protocol::ConvKind::lost:
            move(present.lost, 1);
            break;
        case protocol::ConvKind::skip:
        case protocol::ConvKind::borrow:
            break;
    }
    if (present != before) present.as_of_s = time_s;
    return present;
}

CachePresent after(const CachePresent& before, const protocol::PressureLine& line, double time_s) {
    CachePresent present = before;
    present.as_of_s = time_s;
    if (line.parked) present.parked = line.parked;
    if (line.available_after_mib) present.available_mib = line.available_after_mib;
    // Retained K/V is the first thing to go, and all of it; what conversations gave back has been
    // said by CONV. The line's figure is in whole MiB, the one that was known before to the byte.
    const std::int64_t told_mib =
        std::clamp<std::int64_t>(line.retained_mib.value_or(0), 0, kMibMax);
    if (told_mib > 0 || line.released_dialogs.value_or(0) > 0 || line.exhausted.value_or(false)) {
        move(present.bytes, -std::max(present.retained.value_or(0), told_mib * kMiB));
        if (present.retained) present.retained = 0;
    }
    settle(present);
    return present;
}

CachePresent after(const CachePresent& before, const ParkedList& list, double time_s) {
    CachePresent present = before;
    present.as_of_s = time_s;
    present.parked = list.parked;
    settle(present);
    return present;
}

}  // namespace strata::serve
