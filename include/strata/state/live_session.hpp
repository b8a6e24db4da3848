// The live conversation on the device: its pages of K/V rows, its running state, its ids, its
// checkpoints; and its way into host memory and back. Moves bytes and never decides: what to reuse,
// keep, park or drop is told to it.
//
// States:
//   VALID    rows [0, frontier) are those of ids(), and the running state is the one after them.
//   INVALID  a forward pass or a restore failed half-way, or a pass was abandoned: nothing here may
//            be believed. Only reset() and restore() lead out, and after an abandoned pass
//            cut_back().
//
// A page of the device is CLEAN while a host blob holds the same bytes: at least those of its rows
// below the frontier. Writing a row makes it dirty before the write; a page above the frontier is
// dirty.
//
// Parking and restoring, in order, with the policy (core/conversation_cache.hpp):
//
//   describe()      names every blob; those that are to be filled are announced with their size
//   admit()         refused: nothing to undo; admitted: leave(change.left)
//   capture()       fills what is new: from here on the pages are clean; failed: leave(abort())
//   commit()        leave(change.left), also when it refused
//   validate()      an entry, before take() or borrow()
//   restore()       what they gave; then the image may go: the session holds what it needs
//   differs_from()  STRATA_SNAPSHOT_VERIFY
//   set_live()      with clean_pages(); leave(change.left)
//
// leave() is for every BookChange::left that any step of the policy returns.
//
// With a device that copies by itself (Device::copies_aside) capture() and keep_checkpoint() return
// before the bytes are in host memory. No memory of the device is written while such a copy reads
// it: a page is exchanged for another one before. What was exchanged stays on the device while
// there is room (state/device_pages.hpp), and comes back from there. restore() returns while the
// bytes move and are summed up (validate() only looks at stamps). The session is ARRIVING then: one
// read() may follow, whose layers begin as their rows come; what it gives is nobody's before
// await_arrival() has said that the bytes are what they were.
//
// Of a state in host memory no byte reaches the device before rewind() has summed it up; of an
// image, before validate() has, or with such a device await_arrival() denies what was moved.
//
// Invariants: (1) frontier() == ids().size(); (2) VALID: pages cover all rows below the frontier;
// (3) every checkpoint lies at or below the frontier; (4) a page belongs to this session alone;
// (5) a clean page's blob and a checkpoint's image are held, so they outlive the books' interest;
// (6) with recurrent layers, a checkpoint at the frontier of a VALID session holds the running
// state's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/backend/tensor.hpp"
#include "strata/core/conversation_image.hpp"
#include "strata/core/result.hpp"
#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"
#include "strata/state/blob_store.hpp"
#include "strata/state/checkpoints.hpp"
#include "strata/state/snapshot_stamp.hpp"

namespace strata {

// Why a snapshot is not good.
enum class SnapshotFault : std::uint8_t {
    invalid,   // geometry, sizes, order, a missing blob, a checksum
    identity,  // whole, but of another model, K/V format or steering
};
struct SnapshotRefusal {
    SnapshotFault fault = SnapshotFault::invalid;
    std::string text;  // names the part, and what is wrong with it
};

enum class RestoreResult : std::uint8_t {
    restored,
    no_match,  // the image cannot be resumed at that position; nothing changed
    invalid,   // the image is not whole; nothing changed
    failed,    // a transfer or an allocation failed half-way: the session is INVALID
    spoilt,    // a part of it never came into host memory, found late: the session is INVALID
};
struct RestoreOutcome {
    RestoreResult result = RestoreResult::no_match;
    std::uint64_t bytes = 0;  // moved to the device
    std::string text;         // of what is not `restored`: why
};
// How what a restore left on its way has come.
struct ArrivalOutcome {
    double late_ms = 0;  // behind the restore's return
    bool good = true;    // false: bytes of the image have changed; the session is INVALID and empty
};

struct CaptureFigures {
    std::uint64_t bytes = 0;  // copied from the device
    std::int64_t pages = 0;   // of those, K/V pages
};

enum class PassEnd : std::uint8_t { whole, abandoned };

class Arrival;
class DevicePages;

class LiveSession {
  public:
    ~LiveSession();
    LiveSession(const LiveSession&) = delete;
    LiveSession& operator=(const LiveSession&) = delete;
    using Step = std::function<void()>;

    // Allocates the running state. `runner` and `store` must outlive the session.
    static Result<std::unique_ptr<LiveSession>> open(Runner& runner, BlobStore& store);

    Position frontier() const { return std::ssize(ids_); }
    std::span<const TokenId> ids() const { return ids_; }
    bool valid() const { return valid_; }
    const Checkpoints& checkpoints() const { return checkpoints_; }
    std::size_t pages() const { return pages_.size(); }

    // An empty, VALID conversation. Pages stay for the next one.
    void reset();

    // Drops every row from `position` on. False: the state that was kept there is not what it was;
    // its checkpoints are gone, all else is as before. Preconditions: VALID, 0 <= position <=
    // frontier, and for a model with recurrent layers position is 0, the frontier, or a checkpoint.
    [[nodiscard]] bool rewind(Position position);
    // Looks whether rewind() will find the state, and answers as it does.
    [[nodiscard]] bool can_rewind(Position position);

    // Sees to it that rows [0, rows) have pages, whose memory is there: writing a row into one
    // never waits for the OS. On refusal nothing changed.
    Status<> reserve(Position rows);

    // Reads ids into rows [frontier, frontier + ids.size()) and gives of the last row what is
    // wanted (Runner::forward). Preconditions: VALID; the rows are reserved. A forward pass that
    // throws leaves the session INVALID; the refusal says what it threw. So does one that the
    // runner's watch abandoned.
    Result<PassEnd> read(std::span<const TokenId> ids, const LastRow& wanted);

    // After an abandoned pass: VALID again, at the last position whose state is whole. The frontier
    // of an attention-only model (rows are written from there on), the deepest checkpoint of a
    // model with recurrent layers whose state is what it was, else empty.
    void cut_back();

    // Keeps the state at the frontier; `owner` is the conversation's number. On refusal (no memory)
    // nothing changed. Precondition: VALID.
    Status<> keep_checkpoint(CheckpointKind kind, std::uint64_t owner = 0);
    void drop_checkpoint(std::size_t index) { checkpoints_.remove(index); }

    // Pages above the frontier: of rewound rows and of reservations that were not used up; and what
    // is kept of conversations that are gone.
    bool has_spare_pages() const;
    void release_spare_pages();
    // Most bytes of the device in which conversations that are not live stay, beside those that are
    // on their way into host memory.
    void limit_kept(std::uint64_t bytes);
    // What the device holds of conversations that are not live is nobody's from here on, after the
    // copies that read it.
    void forget_kept();

    // What the conversation is computed with besides the model: a fingerprint of the steering's
    // content, empty = off. Stays until it is told again. Precondition: the frontier is 0.
    void set_steering(std::string_view steering_content);

    // Fills in ids, checkpoints, pages and end_state of an image: clean pages by their blob, a
    // state that a checkpoint at the frontier holds by that, all others announced. A tail below the
    // frontier is not part of it: the end state replaces it. Preconditions: VALID; the frontier is
    // not 0. Throws std::bad_alloc.
    void describe(ConversationImage& image);
    // Gives every blob of `image` that is not filled its bytes, and books them all. The image is
    // what describe() made, and the session was not touched since. On refusal (no memory, a device
    // that fails) every blob that this call made is gone; the session goes on as before.
    // `step` is called now and then while bytes move, on this thread: the place for signs of life.
    Result<CaptureFigures> capture(const ConversationImage& image, const Step& step = {});

    // Checks what restore() at `position` takes over (order, sizes, stamps) and all the bytes that
    // it moves, reading them once. The states of checkpoints below are summed up when rewind()
    // goes there. Changes nothing. Throws std::bad_alloc.
    Status<SnapshotRefusal> validate(const ConversationImage& image, Position position,
                                     std::string_view steering_content) const;
    // The live conversation is the image's rows [0, position) now, with its checkpoints up to
    // there; at its end with recurrent layers the end state is the tail. Pages and checkpoints are
    // clean: they are the image's own. Precondition: validate() found it good.
    RestoreOutcome restore(const ConversationImage& image, Position position,
                           std::string_view steering_content, const Step& step = {});
    // Waits for what the last restore() has left on its way, if anything, and calls `step` now and
    // then. Throws DeviceFault.
    [[nodiscard]] ArrivalOutcome await_arrival(const Step& step = {});
    [[nodiscard]] bool arriving() const { return arriving_ != nullptr; }
    // Compares the device with the image, byte for byte, right after restore() at `position`.
    // Absent: equal; else the first part that differs.
    std::optional<std::string> differs_from(const ConversationImage& image,
                                            Position position) const;

    // Host blobs that hold the same bytes as the session's pages, in order of pages.
    std::vector<HostBlob> clean_pages() const;
    // The books name these (ascending) no longer: pages that were clean by them are dirty now, and
    // the store frees what no checkpoint of this session needs.
    void leave(std::span<const HostBlobId> left) noexcept;

    SequenceMemory memory() const { return {page_addresses_, running_state_.address()}; }
    const Geometry& geometry() const { return runner_->geometry(); }
    Device& device() const { return runner_->device(); }
    BlobStore& store() const { return *store_; }

  private:
    LiveSession(Runner& runner, BlobStore& store);
    void forget_content();
    bool rewind_to(Position position, bool state_is_there);
    [[nodiscard]] bool is_as_sealed(HostBlobId state);
    [[nodiscard]] StateImage good_state_at(Position position);
    void write_state(HostBlobId id);
    void take_over(const ConversationImage& image, Position position);
    void fill_state(HostBlobId id);
    [[nodiscard]] bool must_be_kept(std::size_t page) const;
    void exchange_page(std::size_t page, const Buffer& with);
    void make_writable(std::size_t page, Position rows);
    std::vector<std::size_t> lay_out(const ConversationImage& image, Position position);
    bool move_aside(const ConversationImage& image, Position position, std::uint64_t& bytes);

    Runner* runner_;
    BlobStore* store_;
    SnapshotFingerprint fingerprint_;
    TokenIds ids_;
    std::vector<Buffer> pages_;
    std::vector<void*> page_addresses_;  // of pages_, in the form a runner takes
    std::vector<BlobHold> clean_;        // of pages_; empty = dirty
    std::vector<HostBlobId> copied_;     // of pages_: the blob of the same bytes, whoever names it
    std::unique_ptr<DevicePages> kept_;  // of conversations that are not live
    Buffer running_state_;
    Checkpoints checkpoints_;
    bool valid_ = true;
    std::unique_ptr<Arrival> arriving_;  // writes pages_ and running_state_
};

}  // namespace strata
