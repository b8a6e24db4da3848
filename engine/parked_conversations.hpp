// The conversations beside the live one, at work: carries out what the plan says (park, take,
// borrow, drop), asks the policy what must go, and lets the bytes be moved. It owns the books
// (core/conversation_cache), the pressure policy and the order of their steps; bytes are
// state/'s, decisions the policies'.
//
// Of one request:  check() -> validated() until it is true -> set_aside() -> bring_back() ->
// arrived() -> live_is(), and live_is() again at its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/conversation_cache.hpp"
#include "strata/core/conversation_event.hpp"
#include "strata/core/conversation_pressure.hpp"
#include "strata/core/prompt_plan.hpp"
#include "strata/core/result.hpp"
#include "strata/engine.hpp"
#include "strata/state/live_session.hpp"

namespace strata {

// The live conversation, besides what its session knows.
struct LiveFacts {
    std::uint64_t conversation = 0;
    std::string label;
    PromptMarks marks;
    Identity identity;
    std::int64_t hits = 0;  // how often it was brought back
};

class ParkedConversations {
  public:
    using Step = LiveSession::Step;

    // All must outlive it.
    ParkedConversations(const CacheSettings& settings, const HostMemory& memory,
                        LiveSession& session, const Clock& clock);

    [[nodiscard]] bool enabled() const { return cache_.enabled(); }
    [[nodiscard]] const ConversationCache& books() const { return cache_; }
    // For plan_prompt(). Looks into the books.
    [[nodiscard]] ParkedView view() const;

    // One pressure check; `guarded` stays whatever happens. Nothing when the cache is off.
    void check(PressureWhere where, std::optional<EntryId> guarded, bool answering,
               ConversationEvents& events);
    // The same when it is due: `settings.pressure_period` after the one before.
    void check_if_due(PressureWhere where, ConversationEvents& events);
    // When the idle engine looks next; absent: it need not.
    [[nodiscard]] std::optional<TimePoint> next_idle_check() const;

    // False: the snapshot that the plan chose is not good and is gone; plan again. `steering`, here
    // and below: fingerprint of what the request's steering mode adds; empty = off.
    [[nodiscard]] bool validated(const PromptPlan& plan, std::string_view steering,
                                 ConversationEvents& events);
    // Takes or borrows what the plan brings back, and does with the outgoing conversation what the
    // plan says. The session is the outgoing one's afterwards, too. `step` is called while bytes
    // move: it must not change the books.
    void set_aside(const PromptPlan& plan, const LiveFacts& outgoing, std::uint64_t branch,
                   CacheFigures& figures, ConversationEvents& events, const Step& step);
    // The image that set_aside() took or borrowed is the live conversation now, at plan.reused, or
    // about to be: while the session is arriving() it may read one pass, and nothing else happens
    // before arrived(). Absent: a part was not there, it is gone, and the session is empty; plan
    // again. Refused: the session is INVALID, and the engine cannot go on.
    Result<std::optional<LiveFacts>> bring_back(const PromptPlan& plan, std::string_view steering,
                                                CacheFigures& figures, ConversationEvents& events,
                                                const Step& step);
    // Waits for what bring_back() left on its way, if anything, and tells of it. When all was
    // there, not later than now. Absent: its bytes had changed, it is gone, the session is empty;
    // plan again.
    std::optional<TimePoint> arrived(const PromptPlan& plan, CacheFigures& figures,
                                     ConversationEvents& events, const Step& step);
    // The live conversation changed: its ids, its checkpoints or its clean pages.
    void live_is(const LiveFacts& facts, ConversationEvents& events);
    // After a failure in the midst of anything: nobody is live, and no memory is needed to say so.
    void forget_live() noexcept;

    // A request ran: the books as DONE gives them.
    void report(CacheFigures& figures);

    // CACHE. False: there is no such entry.
    bool pin(EntryId entry) { return cache_.pin(entry); }
    bool unpin(EntryId entry, ConversationEvents& events);
    bool drop(EntryId entry, ConversationEvents& events);
    void clear(ConversationEvents& events);

  private:
    void apply(const BookChange& change, ConversationEvents& events);
    void say(ConversationEvent event, ConversationEvents& events) const;
    void park(const LiveFacts& outgoing, const PromptPlan& plan, CacheFigures& figures,
              ConversationEvents& events, const Step& step);
    void say_superseded(const LiveFacts& outgoing, ConversationEvents& events) const;
    void skip(const LiveFacts& outgoing, ParkSkip why, const Admission* admission,
              CacheFigures& figures, ConversationEvents& events);
    void give_up(const PromptPlan& plan, const ConversationImage& image,
                 ConversationEvents& events);
    [[nodiscard]] PressureHoldings holdings(std::optional<EntryId> guarded) const;
    MemoryReading read();
    MemoryReading read_after(std::uint64_t released, bool answering);
    [[nodiscard]] std::int64_t now_ms() const;

    CacheSettings settings_;
    HostMemory memory_;
    LiveSession* session_;
    Clock clock_;
    ConversationCache cache_;
    ConversationPressure pressure_;
    SharedImage incoming_;  // between set_aside() and bring_back()
    struct Back {
        SharedImage image;
        ConversationEvent event;
        TimePoint began{};
        TimePoint left{};  // when bring_back() left the rest on its way
    };
    Back back_;  // between bring_back() and arrived()
    MemoryReading last_reading_;
    TimePoint last_check_{};
};

}  // namespace strata
