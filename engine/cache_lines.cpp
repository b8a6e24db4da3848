// See engine/cache_lines.hpp.
#include "engine/cache_lines.hpp"

#include <array>
#include <cstdio>

#include "engine/units.hpp"

namespace strata {

namespace {

constexpr std::int64_t kMsPerSecond = 1000;

protocol::ConvKind kind_of(ConversationStep step) {
    switch (step) {
        case ConversationStep::park:
            return protocol::ConvKind::park;
        case ConversationStep::skip:
            return protocol::ConvKind::skip;
        case ConversationStep::restore:
            return protocol::ConvKind::restore;
        case ConversationStep::borrow:
            return protocol::ConvKind::borrow;
        case ConversationStep::supersede:
            return protocol::ConvKind::supersede;
        case ConversationStep::evict:
            return protocol::ConvKind::evict;
        case ConversationStep::release:
            return protocol::ConvKind::release;
        case ConversationStep::drop:
            return protocol::ConvKind::drop;
        case ConversationStep::lost:
            return protocol::ConvKind::lost;
    }
    return protocol::ConvKind::drop;
}

protocol::ConvReason reason_of(ParkSkip skip) {
    switch (skip) {
        case ParkSkip::budget:
            return protocol::ConvReason::budget;
        case ParkSkip::too_large:
            return protocol::ConvReason::too_large;
        case ParkSkip::slots:
            return protocol::ConvReason::slots;
        case ParkSkip::floor:
            return protocol::ConvReason::floor;
        case ParkSkip::unknown_reading:
            return protocol::ConvReason::unknown_reading;
        case ParkSkip::one_shot:
            return protocol::ConvReason::one_shot;
        case ParkSkip::incomplete:
            return protocol::ConvReason::incomplete;
        case ParkSkip::allocation:
            return protocol::ConvReason::allocation;
    }
    return protocol::ConvReason::budget;
}

// None where the kind says it all.
std::optional<protocol::ConvReason> reason_of(Removal removal) {
    switch (removal) {
        case Removal::budget:
            return protocol::ConvReason::budget;
        case Removal::slots:
            return protocol::ConvReason::slots;
        case Removal::command:
            return protocol::ConvReason::command;
        case Removal::invalid:
        case Removal::identity:
            return protocol::ConvReason::invalid;
        case Removal::superseded:
        case Removal::released:
            return std::nullopt;
    }
    return std::nullopt;
}

protocol::PressureWhere where_of(PressureWhere where) {
    switch (where) {
        case PressureWhere::request:
            return protocol::PressureWhere::request;
        case PressureWhere::idle:
            return protocol::PressureWhere::idle;
        case PressureWhere::window:
            return protocol::PressureWhere::window;
        case PressureWhere::command:
            return protocol::PressureWhere::command;
    }
    return protocol::PressureWhere::command;
}

std::string in_ms(const ConversationEvent& event) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.0f ms", event.ms.value_or(0));
    return text.data();
}

std::string books_of(const ConversationEvent& event) {
    return "; parked=" + std::to_string(event.parked) +
           " bytes=" + std::to_string(event.held_bytes);
}

std::string skip_text(const ConversationEvent& event) {
    const auto mib = [](std::uint64_t bytes) { return std::to_string(whole_mib(bytes)) + " MiB"; };
    const ParkSkip skip = event.skip.value_or(ParkSkip::budget);
    if (skip == ParkSkip::budget || skip == ParkSkip::too_large) {
        return "skip parking (needs " + mib(event.needed_bytes) + ", " + mib(event.free_bytes) +
               " of " + mib(event.budget_bytes) + " available)";
    }
    if (skip == ParkSkip::floor && event.available_bytes) {
        return "skip parking (floor: needs " + mib(event.needed_bytes) + " above " +
               mib(event.floor_bytes) + ", " + mib(*event.available_bytes) + " available)";
    }
    return "skip parking (" + std::string(protocol::word(park_skip_of(skip))) + ")";
}

}  // namespace

protocol::ParkSkip park_skip_of(ParkSkip skip) {
    switch (skip) {
        case ParkSkip::budget:
            return protocol::ParkSkip::budget;
        case ParkSkip::too_large:
            return protocol::ParkSkip::too_large;
        case ParkSkip::slots:
            return protocol::ParkSkip::slots;
        case ParkSkip::floor:
            return protocol::ParkSkip::floor;
        case ParkSkip::unknown_reading:
            return protocol::ParkSkip::unknown_reading;
        case ParkSkip::one_shot:
            return protocol::ParkSkip::one_shot;
        case ParkSkip::incomplete:
            return protocol::ParkSkip::incomplete;
        case ParkSkip::allocation:
            return protocol::ParkSkip::allocation;
    }
    return protocol::ParkSkip::budget;
}

protocol::HeldFigures held_figures(std::int64_t parked, std::uint64_t held_bytes,
                                   std::uint64_t retained_bytes) {
    return {parked, line_number(held_bytes), line_number(retained_bytes)};
}

protocol::ConvLine conv_line(const ConversationEvent& event, std::optional<std::uint64_t> id) {
    protocol::ConvLine line;
    line.kind = kind_of(event.step);
    line.entry = event.entry;
    line.conv = event.conversation;
    line.tokens = event.tokens;
    line.bytes = line_number(event.bytes);
    line.ms = event.ms;
    line.id = id;
    if (event.skip) line.reason = reason_of(*event.skip);
    if (event.removal) line.reason = reason_of(*event.removal);
    line.label = event.label;
    line.now = held_figures(event.parked, event.held_bytes, event.retained_bytes);
    return line;
}

protocol::CacheLine cache_row_line(const ParkedEntry& entry, std::uint64_t unique_bytes,
                                   std::int64_t now_ms) {
    const ConversationImage& image = *entry.image;
    protocol::CacheRow row;
    row.entry = entry.entry;
    row.conv = image.conversation;
    row.tokens = image.end();
    row.bytes = line_number(entry.bytes);
    row.unique_bytes = line_number(unique_bytes);
    row.checkpoints = std::ssize(image.checkpoints);
    row.last_used = (now_ms - entry.active_ms) / kMsPerSecond;
    row.hits = entry.hits;
    row.pinned = entry.pinned;
    row.steer = image.identity.steering;
    row.where = protocol::EntryPlace::ram;
    row.label = image.label;
    return {row, {}};
}

protocol::PressureLine pressure_line(const PressureReport& report, double ms) {
    const auto known = [](const std::optional<std::uint64_t>& bytes) {
        return bytes ? std::optional(whole_mib(*bytes)) : std::nullopt;
    };
    protocol::PressureLine line;
    line.available_before_mib = known(report.before_bytes);
    line.available_after_mib = known(report.after_bytes);
    line.floor_mib = whole_mib(report.floor_bytes);
    line.target_mib = whole_mib(report.floor_bytes + report.hysteresis_bytes);
    line.released_dialogs = report.released_dialogs;
    line.released_mib = whole_mib(report.released_bytes());
    line.retained_mib = whole_mib(report.retained_bytes);
    line.lane_checkpoints_mib = whole_mib(report.lane_checkpoint_bytes);
    line.ms = ms;
    line.now = held_figures(report.parked, report.held_bytes, report.kept_bytes);
    line.where = where_of(report.where);
    line.exhausted = report.exhausted;
    return line;
}

std::optional<std::string> event_text(const ConversationEvent& event) {
    const std::string name = "conversation cache: ";
    const std::string tokens = std::to_string(event.tokens) + " tokens";
    const std::string parked = "; parked=" + std::to_string(event.parked);
    switch (event.step) {
        case ConversationStep::park:
            return name + "parked " + tokens + " in " + in_ms(event) + books_of(event) +
                   " evictions=" + std::to_string(event.evictions) +
                   " new_bytes=" + std::to_string(event.bytes) +
                   " shared_bytes=" + std::to_string(event.shared_bytes);
        case ConversationStep::skip:
            return name + skip_text(event);
        case ConversationStep::restore:
            return name + "restored " + tokens +
                   (event.took_end ? " (parked) in " : " (parked_checkpoint) in ") + in_ms(event) +
                   books_of(event);
        case ConversationStep::borrow:
            return name + "borrowed " + tokens +
                   " from a parked conversation, which stays parked, in " + in_ms(event) +
                   books_of(event);
        case ConversationStep::supersede:
            return name + "dropped 1 superseded copy" + parked;
        case ConversationStep::evict:
            return name + "evicted " + tokens + " (" +
                   (event.removal == Removal::slots ? "slots" : "budget") + ")" + parked;
        case ConversationStep::drop:
            return name + "dropped " + tokens + " (" +
                   (event.removal == Removal::command ? "command" : "invalid") + ")" + parked;
        case ConversationStep::release:
        case ConversationStep::lost:
            return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace strata
