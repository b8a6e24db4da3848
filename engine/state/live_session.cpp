// See state/live_session.hpp.
#include "strata/state/live_session.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// The zeros of an empty running state are written in pieces of this size: large enough to be fast,
// and a state of hundreds of MiB needs no second one of zeros beside it.
constexpr std::size_t kZeroPieceBytes = std::size_t{1} << 20;

std::size_t pages_for(Position rows) {
    return static_cast<std::size_t>((rows + kPageTokens - 1) / kPageTokens);
}

}  // namespace

Result<std::unique_ptr<LiveSession>> LiveSession::open(Runner& runner) {
    std::unique_ptr<LiveSession> session(new LiveSession(runner));
    const std::size_t state_bytes = runner.geometry().state_bytes();
    if (state_bytes > 0) {
        auto state = runner.device().allocate(state_bytes);
        if (!state) return state.failure();
        session->running_state_ = std::move(state).value();
    }
    return session;
}

void LiveSession::write_state(std::span<const std::byte> bytes) {
    STRATA_INVARIANT(bytes.size() == geometry().state_bytes());
    device().copy_from_host(running_state_.address(), bytes.data(), bytes.size());
}

void LiveSession::reset() {
    ids_.clear();
    checkpoints_.clear();
    const std::vector<std::byte> zeros(std::min(kZeroPieceBytes, running_state_.bytes()));
    for (std::size_t done = 0; done < running_state_.bytes();) {
        const std::size_t piece = std::min(zeros.size(), running_state_.bytes() - done);
        device().copy_from_host(static_cast<std::byte*>(running_state_.address()) + done,
                                zeros.data(), piece);
        done += piece;
    }
    valid_ = true;
}

void LiveSession::rewind(Position position) {
    rewind_to(position, position == frontier());
}

void LiveSession::rewind_to(Position position, bool state_is_there) {
    STRATA_INVARIANT(valid_ && position >= 0 && position <= frontier());
    if (position == 0) {
        reset();
        return;
    }
    if (!state_is_there && geometry().recurrent()) {
        const StateImage image = checkpoints_.use(position);
        STRATA_INVARIANT(image != nullptr);
        write_state(*image);
    } else {
        checkpoints_.use(position);
    }
    ids_.resize(static_cast<std::size_t>(position));
    checkpoints_.remove_beyond(position);
}

Status<> LiveSession::reserve(Position rows) {
    const std::size_t before = pages_.size();
    const std::size_t wanted = pages_for(rows);
    while (pages_.size() < wanted) {
        auto page = device().allocate(geometry().page_bytes());
        if (!page) {
            pages_.resize(before);
            page_addresses_.resize(before);
            return page.failure();
        }
        page_addresses_.push_back(page->address());
        pages_.push_back(std::move(page).value());
    }
    return Done{};
}

Result<PassEnd> LiveSession::read(std::span<const TokenId> ids, std::span<float> logits) {
    const Position end = frontier() + std::ssize(ids);
    STRATA_INVARIANT(valid_ && !ids.empty() && pages_for(end) <= pages_.size());
    valid_ = false;
    try {
        if (!runner_->forward(memory(), frontier(), ids, logits)) return PassEnd::abandoned;
        ids_.insert(ids_.end(), ids.begin(), ids.end());
    } catch (const std::bad_alloc&) {
        return refuse_memory("no memory for a forward pass of " + std::to_string(ids.size()) +
                             " tokens at position " + std::to_string(frontier()));
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
    Position deepest = 0;
    for (const CheckpointMark& mark : checkpoints_.marks()) {
        deepest = std::max(deepest, mark.position);
    }
    rewind_to(deepest, false);
}

Status<> LiveSession::keep_checkpoint(CheckpointKind kind) {
    STRATA_INVARIANT(valid_);
    StateImage image;
    const std::size_t bytes = running_state_.bytes();
    if (bytes > 0) {
        try {
            auto copy = std::make_shared<std::vector<std::byte>>(bytes);
            device().synchronize();
            device().copy_to_host(copy->data(), running_state_.address(), bytes);
            image = std::move(copy);
        } catch (const std::bad_alloc&) {
            return refuse_memory("no memory for a checkpoint of " + std::to_string(bytes) +
                                 " bytes");
        }
    }
    checkpoints_.add({kind, frontier()}, std::move(image));
    return Done{};
}

bool LiveSession::has_spare_pages() const {
    return pages_.size() > pages_for(frontier());
}

void LiveSession::release_spare_pages() {
    const std::size_t needed = pages_for(frontier());
    if (needed >= pages_.size()) return;
    pages_.resize(needed);
    page_addresses_.resize(needed);
}

}  // namespace strata
