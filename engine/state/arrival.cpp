// See arrival.hpp.
#include "engine/state/arrival.hpp"

#include <algorithm>
#include <system_error>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

constexpr std::chrono::milliseconds kLook{20};  // between two signs of life

}  // namespace

void Arrival::add(const HostBlob& blob) {
    const StoredBlob* stored = store_->find(blob.id);
    STRATA_INVARIANT(stored != nullptr && stored->sealed);
    held_.push_back(store_->hold(blob.id));
    summed_.emplace_back(stored->pieces);
    as_sealed_.push_back(stored->checksum);
}

void Arrival::add_page(std::size_t page, const HostBlob& blob, void* to) {
    add(blob);
    pages_.push_back({to, summed_.back()});
    page_indices_.push_back(page);
}

void Arrival::add_state(const HostBlob& blob, void* to) {
    add(blob);
    states_.push_back({to, summed_.back()});
}

Arrival::Sums Arrival::sum_up(int threads) const {
    const bool good = std::ranges::equal(digests_of(summed_, threads), as_sealed_);
    return {good, Time::clock::now()};
}

void Arrival::start(Device& device, std::span<const std::size_t> cuts) {
    copying_.emplace(device, states_, pages_, cuts);
    const auto sum_up_all = [this, threads = transfer_threads(device)] { return sum_up(threads); };
    try {
        summing_ = std::async(std::launch::async, sum_up_all);
    } catch (const std::system_error&) {  // no thread to be had
        summing_ = std::async(std::launch::deferred, sum_up_all);
    }
}

ArrivalOutcome Arrival::finish(const TransferStep& step) {
    while (summing_.wait_for(kLook) == std::future_status::timeout) {
        if (step) step();
    }
    const Sums sums = summing_.get();
    const Time ended = std::max(copying_->finish(), sums.ended);
    const std::chrono::duration<double, std::milli> late = ended - left_at_;
    return {std::max(late.count(), 0.0), sums.good};
}

}  // namespace strata
