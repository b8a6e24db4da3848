// See serve/monitor/cache_watch.hpp.
#include "serve/monitor/cache_watch.hpp"

#include <utility>

namespace strata::serve {

namespace {

constexpr double kMsPerSecond = 1000;

}  // namespace

template <class Word>
void CacheWatch::apply(double time_s, std::uint64_t epoch, const Word& word) {
    if (epoch < epoch_) return;
    if (epoch > epoch_) present_ = {};
    epoch_ = epoch;
    present_ = after(present_, word, time_s);
}

void CacheWatch::done(double time_s, std::uint64_t epoch, const protocol::DoneLine& line) {
    apply(time_s, epoch, line);
}

void CacheWatch::listed(double time_s, std::uint64_t epoch, const protocol::HeldFigures& held) {
    apply(time_s, epoch, held);
}

void CacheWatch::resumed(double time_s, std::uint64_t epoch, const protocol::ResumeLine& line) {
    apply(time_s, epoch, line);
}

void CacheWatch::conversation(double time_s, std::uint64_t epoch, const protocol::ConvLine& line) {
    count(line);
    apply(time_s, epoch, line);
    add({time_s, epoch, line});
}

void CacheWatch::count(const protocol::ConvLine& line) {
    switch (line.kind) {
        case protocol::ConvKind::park:
            ++counts_.parks;
            if (line.ms) counts_.park_s.add(*line.ms / kMsPerSecond);
            break;
        case protocol::ConvKind::restore:
        case protocol::ConvKind::borrow:
            ++counts_.restores;
            if (line.ms) counts_.restore_s.add(*line.ms / kMsPerSecond);
            break;
        case protocol::ConvKind::evict:
            ++(line.reason == protocol::ConvReason::slots ? counts_.evicted_slots
                                                          : counts_.evicted_budget);
            break;
        case protocol::ConvKind::release:
            ++counts_.released;
            break;
        case protocol::ConvKind::supersede:
            ++counts_.superseded;
            break;
        case protocol::ConvKind::lost:
            ++counts_.lost;
            break;
        case protocol::ConvKind::skip:
            ++counts_.skipped;
            break;
        case protocol::ConvKind::drop:
            break;
    }
}

void CacheWatch::pressure(double time_s, std::uint64_t epoch, const protocol::PressureLine& line) {
    // A person's TRIM that found enough is no event of the machine's.
    const bool asked_for = line.where == protocol::PressureWhere::command;
    if (!asked_for || line.released_mib.value_or(0) > 0) ++counts_.pressure_events;
    apply(time_s, epoch, line);
    add({time_s, epoch, line});
}

CachePresent CacheWatch::present(std::uint64_t epoch) const {
    return epoch == epoch_ ? present_ : CachePresent{};
}

void CacheWatch::add(CacheEvent event) {
    events_.push_front(std::move(event));
    if (events_.size() > kEventsMax) events_.pop_back();
}

}  // namespace strata::serve
