// The live session's way into host memory and back (state/live_session.hpp): naming, capturing,
// checking, restoring, comparing.
#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "engine/state/arrival.hpp"
#include "engine/state/device_pages.hpp"
#include "engine/state/image_check.hpp"
#include "engine/state/page_rows.hpp"
#include "engine/state/transfer.hpp"
#include "strata/backend/device_fault.hpp"
#include "strata/core/invariant.hpp"
#include "strata/state/live_session.hpp"

namespace strata {

namespace {

// One blob to fill from the device.
struct Fill {
    HostBlob blob;
    void* from = nullptr;
    BlobStamp stamp;
};

// One blob to move to the device, or to compare with it.
struct Place {
    const StoredBlob* blob = nullptr;
    void* at = nullptr;
    std::string name;
};

// Where the bytes of a page are parted so that layers can be computed while those behind them are
// on their way: between layers, no part smaller than this. Smaller ones cost the copies some of
// their rate.
constexpr std::size_t kPagePartBytesMin = std::size_t{2} << 20;

std::vector<std::size_t> arrival_cuts(const Geometry& geometry) {
    if (geometry.attention_layers() == 0) return {};
    const std::size_t layer = geometry.page_bytes() / geometry.attention_layers();
    const std::size_t part = (kPagePartBytesMin + layer - 1) / layer * layer;
    std::vector<std::size_t> cuts;
    for (std::size_t at = part; at < geometry.page_bytes(); at += part) cuts.push_back(at);
    cuts.push_back(geometry.page_bytes());
    return cuts;
}

void fill_all(Device& device, BlobStore& store, std::span<const Fill> fills,
              const LiveSession::Step& step) {
    device.synchronize();
    std::vector<Moved> moved;
    moved.reserve(fills.size());
    for (const Fill& each : fills) moved.push_back({each.from, store.pieces(each.blob.id)});
    const auto sums = copy_to_pieces(device, moved, step);
    for (std::size_t i = 0; i < fills.size(); ++i) {
        store.seal(fills[i].blob.id, fills[i].stamp, sums[i]);
    }
}

void book_all(BlobStore& store, const ConversationImage& image) {
    store.book(image.pages);
    for (const ImageCheckpoint& each : image.checkpoints) {
        store.book(std::span(&each.running_state, 1));
    }
    store.book(std::span(&image.end_state, 1));
}

// Where the blobs of an image's rows [0, position) belong on the device.
std::vector<Place> places_of(const BlobStore& store, const ConversationImage& image,
                             Position position, const SequenceMemory& memory) {
    std::vector<Place> places;
    places.reserve(pages_for(position) + 1);
    for (std::size_t i = 0; i < pages_for(position); ++i) {
        places.push_back(
            {store.find(image.pages[i].id), memory.pages[i], "page " + std::to_string(i)});
    }
    const HostBlob state = state_at(image, position);
    if (state.id != HostBlobId::none) {
        places.push_back({store.find(state.id), memory.running_state, "the running state"});
    }
    return places;
}

std::uint64_t move_all(Device& device, std::span<const Place> places,
                       const LiveSession::Step& step) {
    std::uint64_t bytes = 0;
    std::vector<Moved> moved;
    moved.reserve(places.size());
    for (const Place& each : places) {
        moved.push_back({each.at, each.blob->pieces});
        bytes += each.blob->bytes;
    }
    copy_from_pieces(device, moved, step);
    return bytes;
}

}  // namespace

void LiveSession::describe(ConversationImage& image) {
    STRATA_INVARIANT(valid_ && !arriving_ && frontier() > 0);
    image.ids = std::make_shared<const TokenIds>(ids_);
    image.checkpoints.clear();
    image.pages.clear();
    image.end_state = {};
    const auto held = checkpoints_.held();
    for (std::size_t i = 0; i < held.size(); ++i) {
        // The end state is the tail now: an earlier one stays behind.
        const CheckpointMark& mark = held[i].mark;
        if (mark.kind == CheckpointKind::tail && mark.position < frontier()) continue;
        image.checkpoints.push_back({mark, held[i].last_used, checkpoints_.image(i)});
        if (held[i].mark.position == frontier()) image.end_state = checkpoints_.image(i);
    }
    for (std::size_t page = 0; page < pages_for(frontier()); ++page) {
        image.pages.push_back(clean_[page] ? clean_[page].blob()
                                           : HostBlob{store_->announce(), geometry().page_bytes()});
    }
    if (geometry().recurrent() && image.end_state.id == HostBlobId::none) {
        image.end_state = {store_->announce(), running_state_.bytes()};
    }
}

Result<CaptureFigures> LiveSession::capture(const ConversationImage& image, const Step& step) {
    STRATA_INVARIANT(valid_ && !arriving_ && image.end() == frontier() &&
                     image.pages.size() == pages_for(frontier()));
    CaptureFigures figures;
    std::vector<HostBlobId> made;
    try {
        const PrefixHashes hashes(ids_);
        std::vector<Fill> fills;
        std::vector<HostBlob> blobs;
        const auto add = [&](const HostBlob& blob, void* from, Position begin, Position end) {
            fills.push_back(
                {blob, from, {fingerprint_, begin, end, hashes.at(begin), hashes.at(end)}});
            blobs.push_back(blob);
            made.push_back(blob.id);
            figures.bytes += blob.bytes;
        };
        for (std::size_t page = 0; page < image.pages.size(); ++page) {
            if (clean_[page].id() == image.pages[page].id) continue;
            const Position begin = static_cast<Position>(page) * kPageTokens;
            add(image.pages[page], page_addresses_[page], begin,
                std::min(begin + kPageTokens, frontier()));
            ++figures.pages;
        }
        const HostBlob& state = image.end_state;
        if (state.id != HostBlobId::none && store_->find(state.id) == nullptr) {
            add(state, running_state_.address(), frontier(), frontier());
        }
        if (auto memory = store_->allocate(image.conversation, blobs); !memory) {
            return memory.failure();
        }
        if (device().copies_aside()) {
            device().synchronize();
            std::vector<DeviceFill> later;
            for (const Fill& each : fills) {
                if (each.blob.id == state.id) continue;
                later.push_back({each.blob.id, each.from, each.stamp});
            }
            if (later.size() < fills.size()) fill_state(state.id);
            store_->fill_later(later);
        } else {
            fill_all(device(), *store_, fills, step);
        }
    } catch (const std::bad_alloc&) {
        store_->discard(made);
        return refuse_memory("no memory");  // short: it must not need any
    } catch (const DeviceFault&) {
        store_->discard(made);
        throw;
    } catch (const std::exception& fault) {
        store_->discard(made);
        return refuse("the device failed while " + std::to_string(frontier()) +
                      " tokens were parked: " + fault.what());
    }
    book_all(*store_, image);
    for (std::size_t page = 0; page < image.pages.size(); ++page) {
        clean_[page] = store_->hold(image.pages[page].id);
        copied_[page] = image.pages[page].id;
    }
    return figures;
}

Status<SnapshotRefusal> LiveSession::validate(const ConversationImage& image, Position position,
                                              std::string_view steering_content) const {
    const ImageCheck check{*store_, geometry(),
                           fingerprint_of(geometry(), runner_->vocabulary(), steering_content),
                           transfer_threads(device()), !device().copies_aside()};
    return check_image(check, image, position);
}

// Host side of a restore: ids, pages, checkpoints. Throws std::bad_alloc.
void LiveSession::take_over(const ConversationImage& image, Position position) {
    ids_.assign(image.ids->begin(), image.ids->begin() + position);
    for (std::size_t page = 0; page < pages_for(position); ++page) {
        clean_[page] = store_->hold(image.pages[page].id);
    }
    const auto image_of = [this](const HostBlob& blob) {
        return blob.id == HostBlobId::none ? StateImage() : store_->hold(blob.id);
    };
    for (const ImageCheckpoint& each : image.checkpoints) {
        if (each.mark.position > position) continue;
        checkpoints_.put_back({each.mark, each.last_used}, image_of(each.running_state));
    }
    if (position == image.end() && geometry().recurrent()) {
        checkpoints_.add({CheckpointKind::tail, position}, image_of(image.end_state));
    }
    checkpoints_.use(position);
}

// Gives the image's rows [0, position) pages: those that hold them already, else such as may be
// written. The latter are returned.
std::vector<std::size_t> LiveSession::lay_out(const ConversationImage& image, Position position) {
    std::vector<std::size_t> empty;
    for (std::size_t page = 0; page < pages_for(position); ++page) {
        const HostBlobId id = image.pages[page].id;
        if (copied_[page] == id) continue;
        if (const auto kept = kept_->take(id)) {
            exchange_page(page, *kept);
            copied_[page] = id;
        } else {
            empty.push_back(page);
        }
    }
    kept_->look_again();
    for (const std::size_t page : empty) make_writable(page, 0);
    return empty;
}

// False: a part of it is not there. True: all of it is on its way.
bool LiveSession::move_aside(const ConversationImage& image, Position position,
                             std::uint64_t& bytes) {
    auto arrival = std::make_unique<Arrival>(*store_);
    const auto is_there = [&](const HostBlob& blob) {
        store_->await(blob.id);
        bytes += blob.bytes;
        return store_->find(blob.id)->sealed;
    };
    for (const std::size_t page : lay_out(image, position)) {
        if (!is_there(image.pages[page])) return false;
        arrival->add_page(page, image.pages[page], page_addresses_[page]);
    }
    const HostBlob state = state_at(image, position);
    const void* kept_state = state.id == HostBlobId::none ? nullptr : kept_->find(state.id);
    if (kept_state != nullptr) {
        device().copy_on_device(running_state_.address(), kept_state, running_state_.bytes());
    } else if (state.id != HostBlobId::none) {
        if (!is_there(state)) return false;
        arrival->add_state(state, running_state_.address());
    }
    if (arrival->empty()) return true;
    for (const std::size_t page : arrival->pages()) {
        // One that is about to be written is not worth being kept: that would be a copy of it,
        // which waits for all others.
        const bool whole = static_cast<Position>(page + 1) * kPageTokens <= position;
        if (whole) copied_[page] = image.pages[page].id;
    }
    arriving_ = std::move(arrival);
    arriving_->start(device(), arrival_cuts(geometry()));
    return true;
}

ArrivalOutcome LiveSession::await_arrival(const Step& step) {
    if (!arriving_) return {};
    const ArrivalOutcome outcome = arriving_->finish(step);
    if (!outcome.good) {
        forget_content();
        valid_ = false;
    }
    arriving_.reset();
    return outcome;
}

RestoreOutcome LiveSession::restore(const ConversationImage& image, Position position,
                                    std::string_view steering_content, const Step& step) {
    RestoreOutcome outcome;
    if (!resumes_at(image, position, geometry())) {
        outcome.text = "a snapshot of " + std::to_string(image.ids ? image.end() : 0) +
                       " tokens cannot be resumed at " + std::to_string(position);
        return outcome;
    }
    const auto fail = [&](const char* why) {
        valid_ = false;
        forget_content();
        outcome.result = RestoreResult::failed;
        try {
            outcome.text = why;
        } catch (const std::bad_alloc&) {
            outcome.text.clear();
        }
        return std::move(outcome);
    };
    try {
        if (auto whole = check_shape(*store_, geometry(), image); !whole) {
            outcome.result = RestoreResult::invalid;
            outcome.text = whole.error().text;
            return outcome;
        }
        valid_ = false;
        if (auto pages = reserve(position); !pages) return fail(pages.error().text.c_str());
        forget_content();
        set_steering(steering_content);
        take_over(image, position);
        if (device().copies_aside()) {
            if (!move_aside(image, position, outcome.bytes)) {
                forget_content();
                outcome.result = RestoreResult::spoilt;
                outcome.text = "a part of the snapshot never came into host memory";
                return outcome;
            }
        } else {
            outcome.bytes = move_all(device(), places_of(*store_, image, position, memory()), step);
            device().synchronize();
        }
    } catch (const std::bad_alloc&) {
        return fail("no memory");
    } catch (const DeviceFault&) {
        throw;  // still INVALID
    } catch (const std::exception& fault) {
        return fail(fault.what());
    }
    valid_ = true;
    outcome.result = RestoreResult::restored;
    if (arriving_) arriving_->left_behind();
    return outcome;
}

std::optional<std::string> LiveSession::differs_from(const ConversationImage& image,
                                                     Position position) const {
    device().synchronize();
    for (std::size_t page = 0; page < pages_for(position); ++page) {
        store_->await(image.pages[page].id);
    }
    store_->await(state_at(image, position).id);
    for (const Place& each : places_of(*store_, image, position, memory())) {
        if (!device_equals(device(), each.at, each.blob->pieces)) return each.name;
    }
    return std::nullopt;
}

std::vector<HostBlob> LiveSession::clean_pages() const {
    std::vector<HostBlob> pages;
    for (const BlobHold& page : clean_) {
        if (page) pages.push_back(page.blob());
    }
    return pages;
}

void LiveSession::leave(std::span<const HostBlobId> left) noexcept {
    for (BlobHold& page : clean_) {
        if (page && std::binary_search(left.begin(), left.end(), page.id())) page = {};
    }
    store_->leave(left);
}

}  // namespace strata
