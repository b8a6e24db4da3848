// One conversation cache and the reference beside it, driven through the same steps. After every
// step all invariants are worked out again from who holds what; the first difference ends the walk
// with a sentence. Copies of a walk go different ways (cache_small_scope).
#pragma once

#include <cstdint>
#include <string>

#include "reference_cache.hpp"
#include "sim_session.hpp"

namespace strata::tests {

struct WalkShape {
    SimShape session;
    CacheLimits limits;
};

class CacheWalk {
  public:
    CacheWalk(const WalkShape& shape, std::uint64_t seed);

    // One random step of many kinds.
    void random_step();

    // The steps that cache_small_scope puts in every order.
    void say(TokenId id);           // one more turn of the live conversation
    void begin_chat(bool steered);  // the live one is parked, another begins
    void go_back_to_oldest();       // the live one is parked, the oldest is taken
    void branch_from_newest();      // the live one is parked, the newest lends its first checkpoint
    void release_oldest();

    // Empty while everything agrees.
    [[nodiscard]] const std::string& fault() const { return fault_; }
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    // How often the rarer things happened: a walk that never gets there proves nothing.
    struct Tally {
        std::uint64_t parked = 0;
        std::uint64_t refused = 0;
        std::uint64_t taken = 0;
        std::uint64_t borrowed = 0;
        std::uint64_t undone = 0;
        std::uint64_t aborted = 0;
        std::uint64_t lost = 0;
        std::uint64_t evicted = 0;
        std::uint64_t superseded = 0;
        std::uint64_t released = 0;
        std::uint64_t retained_dropped = 0;
    };
    [[nodiscard]] const Tally& tally() const { return tally_; }

  private:
    std::uint64_t random(std::uint64_t below);
    bool chance(std::uint64_t percent) { return random(100) < percent; }
    EntryId random_entry();
    MemoryReading random_reading();

    void write(std::uint64_t tokens);
    void rewind();
    void switch_conversation();
    void leave_branch();
    void take_and_undo();
    void fail_midway();
    void steer();
    bool park(const ParkRequest& request, const MemoryReading& after, bool fails);
    SharedImage take(EntryId entry);
    SharedImage borrow(EntryId entry);
    void tell_live();
    void begin(bool steered);

    // The step's change against the reference's, then all invariants.
    void check(const char* step, const BookChange& change);
    void check_books(const char* step);
    void check_entries(const char* step);
    void check_superseded(const char* step);
    void check_stones(const char* step);
    void expect(bool holds, const char* step, const char* what);

    WalkShape shape_;
    ConversationCache cache_;
    ReferenceCache reference_;
    SimSession session_;
    std::vector<HostBlob> named_;   // before the step
    std::optional<EntryId> donor_;  // of the switch under way
    std::uint64_t random_state_;
    std::uint64_t conversations_ = 0;
    std::uint64_t steps_ = 0;
    std::int64_t evictions_ = 0;
    std::string fault_;
    Tally tally_;
};

}  // namespace strata::tests
