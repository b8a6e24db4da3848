// See state/live_session.hpp.
#include "strata/state/live_session.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "engine/state/arrival.hpp"
#include "engine/state/device_pages.hpp"
#include "engine/state/page_rows.hpp"
#include "engine/state/transfer.hpp"
#include "strata/backend/device_fault.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// The zeros of an empty running state are written in pieces of this size: large enough to be fast,
// and a state of hundreds of MiB needs no second one of zeros beside it.
constexpr std::size_t kZeroPieceBytes = std::size_t{1} << 20;

}  // namespace

LiveSession::LiveSession(Runner& runner, BlobStore& store)
    : runner_(&runner),
      store_(&store),
      fingerprint_(fingerprint_of(runner.geometry(), runner.vocabulary(), {})),
      kept_(std::make_unique<DevicePages>(runner.device(), store)) {}

LiveSession::~LiveSession() {
    store_->end_filling();  // copies read this session's memory
}

Result<std::unique_ptr<LiveSession>> LiveSession::open(Runner& runner, BlobStore& store) {
    std::unique_ptr<LiveSession> session(new LiveSession(runner, store));
    const std::size_t state_bytes = runner.geometry().state_bytes();
    if (state_bytes > 0) {
        auto state = runner.device().allocate(state_bytes);
        if (!state) return state.failure();
        session->running_state_ = std::move(state).value();
    }
    return session;
}

bool LiveSession::is_as_sealed(HostBlobId state) {
    store_->await(state);
    const StoredBlob& stored = *store_->find(state);
    const Pieces pieces(stored.pieces);
    return stored.sealed &&
           digests_of(std::span(&pieces, 1), transfer_threads(device())).front() == stored.checksum;
}

// A state that is on the device or as it was sealed. What is neither is no checkpoint any more.
StateImage LiveSession::good_state_at(Position position) {
    while (StateImage image = checkpoints_.at(position)) {
        if (kept_->find(image.id()) != nullptr || is_as_sealed(image.id())) return image;
        checkpoints_.remove_image(image.id());
    }
    return {};
}

// Precondition: it is good.
void LiveSession::write_state(HostBlobId id) {
    void* to = running_state_.address();
    if (const void* there = kept_->find(id)) {
        device().copy_on_device(to, there, running_state_.bytes());
        return;
    }
    const StoredBlob& state = *store_->find(id);
    STRATA_INVARIANT(state.sealed && state.bytes == geometry().state_bytes());
    const Moved copy{to, state.pieces};
    copy_from_pieces(device(), std::span(&copy, 1));
}

// The running state into a blob that is allocated, while the session goes on. Throws
// std::bad_alloc, and then the blob is not filling.
void LiveSession::fill_state(HostBlobId id) {
    const std::uint64_t ids = PrefixHashes(ids_).at(frontier());
    const BlobStamp stamp{fingerprint_, frontier(), frontier(), ids, ids};
    kept_->look_again();
    auto copy = kept_->fresh(running_state_.bytes());
    if (copy) {
        device().copy_on_device(copy->address(), running_state_.address(), running_state_.bytes());
        kept_->put(*copy, id);
    }
    device().synchronize();
    const DeviceFill fill{id, copy ? copy->address() : running_state_.address(), stamp};
    store_->fill_later(std::span(&fill, 1));
    if (copy) return;
    store_->await(id);
    if (!store_->find(id)->sealed) throw std::bad_alloc();  // the filler had no memory
}

// Something reads this page, or it holds what another conversation may come back for.
bool LiveSession::must_be_kept(std::size_t page) const {
    const HostBlobId of = copied_[page];
    if (of == HostBlobId::none) return false;
    if (store_->filling(of)) return true;
    return kept_->keeps() && store_->find(of) != nullptr;
}

void LiveSession::exchange_page(std::size_t page, const Buffer& with) {
    kept_->put(pages_[page], copied_[page]);  // from here on nothing can fail
    pages_[page] = with;
    page_addresses_[page] = with.address();
    copied_[page] = HostBlobId::none;
}

// Its content is about to change; the rows below `rows` are still needed.
void LiveSession::make_writable(std::size_t page, Position rows) {
    if (must_be_kept(page)) {
        if (auto other = kept_->fresh(geometry().page_bytes())) {
            if (pages_for(rows) > page) {
                device().copy_on_device(other->address(), page_addresses_[page], other->bytes());
            }
            exchange_page(page, *other);
        }
        store_->await(copied_[page]);
    }
    copied_[page] = HostBlobId::none;
}

void LiveSession::forget_content() {
    if (arriving_) {  // nobody knows what its pages hold
        for (const std::size_t page : arriving_->pages()) copied_[page] = HostBlobId::none;
        arriving_.reset();
    }
    ids_.clear();
    checkpoints_.clear();
    for (BlobHold& page : clean_) page = {};
}

void LiveSession::set_steering(std::string_view steering_content) {
    STRATA_INVARIANT(frontier() == 0);
    fingerprint_ = fingerprint_of(geometry(), runner_->vocabulary(), steering_content);
}

void LiveSession::reset() {
    forget_content();
    const std::vector<std::byte> zeros(std::min(kZeroPieceBytes, running_state_.bytes()));
    auto* state = static_cast<std::byte*>(running_state_.address());
    for (std::size_t done = 0; done < running_state_.bytes();) {
        const std::size_t left = running_state_.bytes() - done;
        const bool spreads = done > 0 && device().copies_aside();
        const std::size_t piece = std::min(spreads ? done : zeros.size(), left);
        if (spreads) {
            device().copy_on_device(state + done, state, piece);
        } else {
            device().copy_from_host(state + done, zeros.data(), piece);
        }
        done += piece;
    }
    valid_ = true;
}

bool LiveSession::rewind(Position position) {
    return rewind_to(position, position == frontier());
}

bool LiveSession::can_rewind(Position position) {
    STRATA_INVARIANT(valid_);
    const bool needs_state = geometry().recurrent() && position > 0 && position < frontier();
    return !needs_state || good_state_at(position);
}

bool LiveSession::rewind_to(Position position, bool state_is_there) {
    STRATA_INVARIANT(valid_ && !arriving_ && position >= 0 && position <= frontier());
    if (position == 0) {
        reset();
        return true;
    }
    if (!state_is_there && geometry().recurrent()) {
        STRATA_INVARIANT(checkpoints_.has(position));
        const StateImage image = good_state_at(position);
        if (!image) return false;
        write_state(image.id());
    }
    checkpoints_.use(position);
    ids_.resize(static_cast<std::size_t>(position));
    checkpoints_.remove_beyond(position);
    for (std::size_t page = pages_for(position); page < clean_.size(); ++page) clean_[page] = {};
    return true;
}

Status<> LiveSession::reserve(Position rows) {
    const std::size_t before = pages_.size();
    const std::size_t wanted = pages_for(rows);
    if (wanted <= before) return Done{};
    pages_.reserve(wanted);  // from here on only the device can refuse
    page_addresses_.reserve(wanted);
    clean_.reserve(wanted);
    copied_.reserve(wanted);
    kept_->look_again();
    while (pages_.size() < wanted) {
        // A device's memory is zeroed, so the OS has put memory behind all of it.
        auto page = kept_->fresh(geometry().page_bytes());
        if (!page) {
            pages_.resize(before);
            page_addresses_.resize(before);
            clean_.resize(before);
            copied_.resize(before);
            return page.failure();
        }
        page_addresses_.push_back(page->address());
        pages_.push_back(std::move(page).value());
        clean_.emplace_back();
        copied_.push_back(HostBlobId::none);
    }
    return Done{};
}

Result<PassEnd> LiveSession::read(std::span<const TokenId> ids, const LastRow& wanted) {
    const Position end = frontier() + std::ssize(ids);
    STRATA_INVARIANT(valid_ && !ids.empty() && pages_for(end) <= pages_.size());
    valid_ = false;
    try {
        kept_->look_again();
        for (auto page = static_cast<std::size_t>(frontier() / kPageTokens); page < pages_for(end);
             ++page) {
            make_writable(page, frontier());
            clean_[page] = {};
        }
        if (!runner_->forward(memory(), frontier(), ids, wanted)) return PassEnd::abandoned;
        ids_.insert(ids_.end(), ids.begin(), ids.end());
    } catch (const std::bad_alloc&) {
        return refuse_memory("no memory for a forward pass of " + std::to_string(ids.size()) +
                             " tokens at position " + std::to_string(frontier()));
    } catch (const DeviceFault&) {
        throw;
    } catch (const std::exception& fault) {
        return refuse("a forward pass failed at position " + std::to_string(frontier()) + ": " +
                      fault.what());
    }
    valid_ = true;
    return PassEnd::whole;
}

void LiveSession::cut_back() {
    valid_ = true;  // but for a running state, which is written now
    if (!geometry().recurrent()) return;
    while (!rewind_to(checkpoints_.deepest(), false)) {
        // That one was not what it was: the next.
    }
}

Status<> LiveSession::keep_checkpoint(CheckpointKind kind, std::uint64_t owner) {
    STRATA_INVARIANT(valid_ && !arriving_);
    const std::size_t bytes = running_state_.bytes();
    try {
        StateImage image;
        if (bytes > 0) {
            const HostBlob blob{store_->announce(), bytes, false};
            auto memory = store_->allocate(owner, std::span(&blob, 1));
            if (!memory) return memory;
            image = store_->hold(blob.id);
            if (device().copies_aside()) {
                fill_state(blob.id);
            } else {
                device().synchronize();
                const Moved copy{running_state_.address(), store_->pieces(blob.id)};
                const Digest128 sum = copy_to_pieces(device(), std::span(&copy, 1)).front();
                const std::uint64_t ids = PrefixHashes(ids_).at(frontier());
                store_->seal(blob.id, {fingerprint_, frontier(), frontier(), ids, ids}, sum);
            }
        }
        checkpoints_.add({kind, frontier()}, std::move(image));
    } catch (const std::bad_alloc&) {
        return refuse_memory("no memory");  // short: it must not need any
    }
    return Done{};
}

void LiveSession::limit_kept(std::uint64_t bytes) {
    kept_->limit(bytes);
}

void LiveSession::forget_kept() {
    kept_->forget();
    for (std::size_t page = 0; page < pages_.size(); ++page) {
        store_->await(copied_[page]);
        if (clean_[page].id() != copied_[page]) copied_[page] = HostBlobId::none;
    }
}

bool LiveSession::has_spare_pages() const {
    return pages_.size() > pages_for(frontier()) || kept_->has_unnamed();
}

void LiveSession::release_spare_pages() {
    const std::size_t needed = pages_for(frontier());
    for (std::size_t page = needed; page < pages_.size(); ++page) {
        if (must_be_kept(page)) kept_->put(pages_[page], copied_[page]);
    }
    kept_->release_unnamed();
    if (needed >= pages_.size()) return;
    pages_.resize(needed);
    page_addresses_.resize(needed);
    clean_.resize(needed);
    copied_.resize(needed);
}

}  // namespace strata
