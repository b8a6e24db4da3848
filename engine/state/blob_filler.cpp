// See blob_filler.hpp.
#include "engine/state/blob_filler.hpp"

#include <algorithm>
#include <new>
#include <system_error>

#include "engine/state/transfer.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// A first write to each of the system's pages: it clears them before the device's driver is asked
// to lock them, which holds up whoever else asks the driver for something.
void touch(std::span<std::byte> piece) {
    for (std::size_t at = 0; at < piece.size(); at += kHostPageBytes) piece[at] = std::byte{0};
}

}  // namespace

BlobFiller::~BlobFiller() {
    for (std::jthread& thread : threads_) thread.request_stop();
}

void BlobFiller::open_threads() noexcept {
    const int wanted = std::clamp(transfer_threads(*device_), 1, kFillThreadsMax);
    try {
        while (std::ssize(threads_) < wanted) {
            threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
        }
    } catch (const std::system_error&) {
        // No thread to be had: the others do more, and without any, take() does it.
    } catch (const std::bad_alloc&) {
    }
}

void BlobFiller::begin(std::span<const Fill> fills) {
    std::map<HostBlobId, Job> jobs;
    for (const Fill& fill : fills) {
        Job job{fill, 0};
        for (const auto& piece : fill.pieces) job.bytes += piece.size();
        jobs.emplace(fill.id, std::move(job));
    }
    {
        const std::lock_guard lock(mutex_);
        const std::size_t before = order_.size();
        try {
            for (const Fill& fill : fills) order_.push_back(fill.id);
        } catch (const std::bad_alloc&) {
            order_.resize(before);
            throw;
        }
        for (const auto& [id, job] : jobs) waiting_bytes_ += job.bytes;
        jobs_.merge(jobs);
        STRATA_INVARIANT(jobs.empty());
    }
    open_threads();
    changed_.notify_all();
}

void BlobFiller::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !order_.empty() && !paused_; })) {
        if (stop.stop_requested()) return;
        const HostBlobId id = order_.front();
        order_.pop_front();
        const auto found = jobs_.find(id);
        if (found == jobs_.end() || found->second.stage != Stage::waiting) continue;
        run(found->second, lock);
        changed_.notify_all();
    }
}

void BlobFiller::run(Job& job, std::unique_lock<std::mutex>& lock) {
    job.stage = Stage::running;
    lock.unlock();
    fill(job);
    lock.lock();
    job.stage = Stage::done;
    waiting_bytes_ -= job.bytes;
}

void BlobFiller::fill(Job& job) noexcept {
    try {
        for (const auto& piece : job.fill.pieces) touch(piece);
        for (const auto& piece : job.fill.pieces) pool_->lock_around(piece);
        job.end.sum = copy_to_pieces_aside(*device_, job.fill.from, job.fill.pieces);
    } catch (...) {
        job.end.fault = std::current_exception();
    }
}

std::optional<Filled> BlobFiller::take(HostBlobId id, bool wait) {
    std::unique_lock lock(mutex_);
    const auto found = jobs_.find(id);
    STRATA_INVARIANT(found != jobs_.end());
    Job& job = found->second;
    if (wait && job.stage == Stage::waiting) {
        run(job, lock);  // sooner than in its turn: on this thread
    } else if (wait) {
        changed_.wait(lock, [&job] { return job.stage == Stage::done; });
    }
    if (job.stage != Stage::done) return std::nullopt;
    Filled end = std::move(job.end);
    jobs_.erase(found);
    return end;
}

void BlobFiller::cancel(HostBlobId id) noexcept {
    std::unique_lock lock(mutex_);
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return;
    Job& job = found->second;
    if (job.stage == Stage::waiting) {
        waiting_bytes_ -= job.bytes;
    } else {
        changed_.wait(lock, [&job] { return job.stage == Stage::done; });
    }
    jobs_.erase(found);
}

void BlobFiller::pause(bool paused) {
    {
        const std::lock_guard lock(mutex_);
        paused_ = paused;
    }
    changed_.notify_all();
}

std::uint64_t BlobFiller::waiting_bytes() const {
    const std::lock_guard lock(mutex_);
    return waiting_bytes_;
}

}  // namespace strata
