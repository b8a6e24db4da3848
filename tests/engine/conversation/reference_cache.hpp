// The conversation cache written a second time, as plainly as the rules read: every question is
// answered by looking at all holders again, nothing is counted along the way. Slow, and the oracle
// of cache_walk. It shares types with the policy and no code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strata/core/conversation_cache.hpp"

namespace strata::tests {

struct ReferenceEntry {
    EntryId entry = 0;
    SharedImage image;
    bool pinned = false;
    std::int64_t hits = 0;
};

struct ReferenceStone {
    std::string steering;
    TokenIds ids;
    LossCause cause = LossCause::evicted;
};

// The rule of conversation_image.hpp, by comparing tokens one by one.
[[nodiscard]] bool plainly_superseded(const ConversationImage& old, const TokenIds& by_ids,
                                      const std::string& by_steering,
                                      const std::vector<Position>& by_points);
[[nodiscard]] bool plainly_superseded(const ConversationImage& old, const ConversationImage& by);

class ReferenceCache {
  public:
    explicit ReferenceCache(const CacheLimits& limits) : limits_(limits) {}

    struct Removed {
        EntryId entry = 0;
        Removal why = Removal::command;
        friend bool operator==(const Removed&, const Removed&) = default;
    };
    struct Admitted {
        bool admitted = false;
        std::optional<ParkSkip> skip;
        bool superseded = false;
    };

    bool take(EntryId entry);
    bool borrow(EntryId entry);
    bool undo_take();
    Admitted admit(const ParkRequest& request);
    std::optional<ParkSkip> commit(const MemoryReading& after);
    void abort();
    void set_live(const std::vector<HostBlob>& pages, const TokenIds& ids,
                  const std::string& steering, const std::vector<Position>& points);
    void forget_live();
    void discard(EntryId entry, Removal why);
    void evict_oldest(std::optional<EntryId> guarded);
    void release_retained();
    void pin(EntryId entry);
    void unpin(EntryId entry);
    void clear();

    [[nodiscard]] std::vector<HostBlob> named() const;  // ascending, each once
    [[nodiscard]] std::uint64_t bytes() const;
    [[nodiscard]] std::uint64_t retained_bytes() const;
    // How many holders name it.
    [[nodiscard]] std::uint32_t holders(HostBlobId id) const;

    std::vector<ReferenceEntry> entries;  // oldest first
    std::vector<HostBlob> live;
    std::optional<ReferenceEntry> incoming;
    std::optional<ReferenceEntry> capture;
    CacheCounters counters;
    std::vector<ReferenceStone> stones;
    std::vector<Removed> removed;  // by the last step

  private:
    [[nodiscard]] std::vector<std::vector<HostBlob>> all_holders() const;
    [[nodiscard]] std::optional<std::size_t> place_of(EntryId entry) const;
    [[nodiscard]] std::optional<std::size_t> victim(std::optional<EntryId> guarded) const;
    [[nodiscard]] bool held_by_another(std::size_t at) const;
    void remove(std::size_t at, Removal why);
    void add_stone(const ConversationImage& image, LossCause cause);
    Admitted refuse(const ParkRequest& request, ParkSkip why, LossCause cause);

    CacheLimits limits_;
    std::size_t newer_ = 0;
    bool committed_since_ = false;
    EntryId last_entry_ = 0;
    std::optional<EntryId> guarded_;  // of the capture
};

}  // namespace strata::tests
