// What a restore leaves on its way when it returns: the copies to the device, the sums of the
// bytes, which may turn out not to be what they were, and the blobs, which nobody may free
// meanwhile. The device lets nobody read a row before it is there (Device::start_copies_from_host).
#pragma once

#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <span>
#include <vector>

#include "engine/state/transfer.hpp"
#include "strata/state/blob_store.hpp"
#include "strata/state/live_session.hpp"

namespace strata {

class Arrival {
  public:
    explicit Arrival(BlobStore& store) : paused_(store), store_(&store) {}

    // A page or a state that is to move, in this order: the blob must be sealed.
    void add_page(std::size_t page, const HostBlob& blob, void* to);
    void add_state(const HostBlob& blob, void* to);
    [[nodiscard]] bool empty() const { return held_.empty(); }
    // Begins to copy and to sum up. `cuts`: as CopiesFromHost.
    void start(Device& device, std::span<const std::size_t> cuts);
    // Pages of the session that move.
    [[nodiscard]] std::span<const std::size_t> pages() const { return page_indices_; }
    // The restore returns.
    void left_behind() { left_at_ = Time::clock::now(); }
    // Waits for copies and sums, with `step` now and then. Once. Throws DeviceFault.
    [[nodiscard]] ArrivalOutcome finish(const TransferStep& step);

  private:
    using Time = std::chrono::steady_clock::time_point;

    // Copies to the host make room for those that somebody waits for.
    class FillingPaused {
      public:
        explicit FillingPaused(BlobStore& store) : store_(&store) { store.pause_filling(true); }
        ~FillingPaused() { store_->pause_filling(false); }
        FillingPaused(const FillingPaused&) = delete;
        FillingPaused& operator=(const FillingPaused&) = delete;

      private:
        BlobStore* store_;
    };
    struct Sums {
        bool good = false;  // as they were sealed
        Time ended{};
    };
    Sums sum_up(int threads) const;
    void add(const HostBlob& blob);

    FillingPaused paused_;
    BlobStore* store_;
    std::vector<BlobHold> held_;
    std::vector<Pieces> summed_;        // of held_
    std::vector<Digest128> as_sealed_;  // of held_
    std::vector<std::size_t> page_indices_;
    std::vector<Moved> pages_;
    std::vector<Moved> states_;
    Time left_at_{};
    // These end before the blobs go.
    std::optional<CopiesFromHost> copying_;
    std::future<Sums> summing_;
};

}  // namespace strata
