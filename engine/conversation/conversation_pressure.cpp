// See core/conversation_pressure.hpp.
#include "strata/core/conversation_pressure.hpp"

#include <algorithm>
#include <cmath>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Retained K/V and idle lanes are a unit each, beside the parked conversations.
constexpr std::int64_t kUnitsBesideSlots = 2;

std::uint64_t given_back(std::uint64_t before, std::uint64_t after) {
    return before > after ? before - after : 0;
}

std::string_view word(PressureWhere where) {
    switch (where) {
        case PressureWhere::request:
            return "request";
        case PressureWhere::idle:
            return "idle";
        case PressureWhere::window:
            return "window";
        case PressureWhere::command:
            return "command";
    }
    return "idle";
}

}  // namespace

PressureStep ConversationPressure::begin(PressureWhere where, const MemoryReading& reading,
                                         const PressureHoldings& holdings, bool may_settle) {
    report_ = {};
    report_.where = where;
    report_.before_bytes = reading.available_bytes;
    report_.after_bytes = reading.available_bytes;
    report_.last_known_bytes = reading.available_bytes.value_or(0);
    report_.floor_bytes = limits_.floor_bytes;
    report_.hysteresis_bytes = limits_.hysteresis_bytes;
    note_left(holdings);
    units_ = 0;
    step_ = PressureStep::done;
    before_step_ = holdings;
    if (!reading.available_bytes || *reading.available_bytes >= limits_.floor_bytes) return step_;
    const std::uint64_t held = holdings.held_bytes + holdings.lane_checkpoint_bytes;
    // Nothing was left and nothing came: another try would find the same. A person who asks gets
    // it.
    if (said_exhausted_ == held && where != PressureWhere::command) return step_;
    said_exhausted_.reset();
    report_.event = true;
    return may_settle ? step_ = PressureStep::settle : choose(holdings);
}

PressureStep ConversationPressure::next(const MemoryReading& reading,
                                        const PressureHoldings& holdings) {
    STRATA_INVARIANT(step_ != PressureStep::done);
    account(holdings);
    report_.after_bytes = reading.available_bytes;
    if (!reading.available_bytes) return finish();
    report_.last_known_bytes = *reading.available_bytes;
    if (*reading.available_bytes >= limits_.floor_bytes + limits_.hysteresis_bytes) return finish();
    return choose(holdings);
}

void ConversationPressure::note_left(const PressureHoldings& holdings) {
    report_.parked = holdings.parked;
    report_.held_bytes = holdings.held_bytes;
    report_.kept_bytes = holdings.retained_bytes;
}

// What the last step gave back, by what is missing now.
void ConversationPressure::account(const PressureHoldings& holdings) {
    switch (step_) {
        case PressureStep::done:
            break;
        case PressureStep::settle:
            report_.settled = true;
            break;
        case PressureStep::release_retained:
            report_.retained_bytes += given_back(before_step_.held_bytes, holdings.held_bytes);
            break;
        case PressureStep::release_oldest:
            report_.released_dialogs += before_step_.parked > holdings.parked ? 1 : 0;
            report_.dialog_bytes += given_back(before_step_.held_bytes, holdings.held_bytes);
            break;
        case PressureStep::release_lane_checkpoints:
            report_.lane_checkpoint_bytes +=
                given_back(before_step_.lane_checkpoint_bytes, holdings.lane_checkpoint_bytes);
            break;
    }
    note_left(holdings);
    before_step_ = holdings;
}

PressureStep ConversationPressure::choose(const PressureHoldings& holdings) {
    if (units_ >= limits_.slots + kUnitsBesideSlots) {
        report_.bound_reached = true;
        return finish();
    }
    if (holdings.retained_bytes > 0) {
        step_ = PressureStep::release_retained;
    } else if (holdings.releasable > 0) {
        step_ = PressureStep::release_oldest;
    } else if (holdings.lane_checkpoint_bytes > 0) {
        step_ = PressureStep::release_lane_checkpoints;
    } else {
        report_.exhausted = true;
        said_exhausted_ = holdings.held_bytes + holdings.lane_checkpoint_bytes;
        return finish();
    }
    ++units_;
    return step_;
}

PressureStep ConversationPressure::finish() {
    return step_ = PressureStep::done;
}

std::string pressure_text(const PressureReport& report, double ms) {
    const auto mib = [](std::uint64_t bytes) { return std::to_string(bytes / kMib); };
    return "conversation cache: RAM below the floor: released " +
           std::to_string(report.released_dialogs) + " dialogs, " + mib(report.released_bytes()) +
           " MiB (dropped) in " + std::to_string(std::llround(ms)) + " ms; " +
           std::string(word(report.where)) + ": " + mib(report.before_bytes.value_or(0)) + " -> " +
           mib(report.last_known_bytes) + " MiB available, floor " + mib(report.floor_bytes) +
           " MiB + " + mib(report.hysteresis_bytes) + "; parked=" + std::to_string(report.parked);
}

std::int64_t idle_slice_ms(const MemoryReading& reading, std::uint64_t floor_bytes,
                           std::int64_t period_ms) {
    if (period_ms <= 0) return 0;
    if (!reading.available_bytes || *reading.available_bytes < floor_bytes) return period_ms;
    const std::uint64_t headroom = *reading.available_bytes - floor_bytes;
    const auto ms = static_cast<std::int64_t>(headroom / (kFillBytesPerSecond / 1000));
    return std::clamp(ms, std::min(kIdleSliceMsMin, period_ms), period_ms);
}

}  // namespace strata
