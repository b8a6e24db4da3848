// The engine's order of things around the policy, without bytes: each request is planned, the
// outgoing conversation parked, the incoming one brought back, the rest read and answered, in the
// order of conversation_cache.hpp. The plan and the cache are the real ones.
#pragma once

#include <optional>
#include <string>

#include "sim_session.hpp"
#include "strata/core/prompt_plan.hpp"

namespace strata::tests {

inline constexpr TokenId kOpen = 1;
inline constexpr TokenId kSystemWord = 2;
inline constexpr TokenId kUserWord = 3;
inline constexpr TokenId kAssistantWord = 4;
inline constexpr TokenId kEnd = 9;
inline constexpr TurnWords kTurnWords{kOpen, kSystemWord};

[[nodiscard]] TokenIds joined(std::initializer_list<TokenIds> parts);
// kOpen, role, `tokens` of content that begin with `first`, kEnd.
[[nodiscard]] TokenIds turn_of(TokenId role, TokenId first, std::size_t tokens);
[[nodiscard]] inline TokenIds assistant_head() {
    return {kOpen, kAssistantWord};
}

struct Asked {
    std::string steering;
    std::string level;
    bool keep = true;
    MemoryReading reading{std::uint64_t{1} << 40, MemoryBound::host};
    bool answers = true;  // false: cancelled inside a chunk of the prompt, after `read` of it
    Position read = 0;
};

struct Said {
    PromptPlan plan;
    TokenIds ids;  // everything that the conversation is now
    bool parked_now = false;
    std::optional<ParkSkip> skip;
};

class PolicyStage {
  public:
    PolicyStage(const SimShape& shape, const CacheLimits& limits, Position root_min_tokens = 4);

    Said say(const TokenIds& prompt, const Asked& asked = {});
    // The next turn of the same chat: what it is now, a user's turn, the assistant's head.
    Said reply(const Said& last, TokenId first);

    ConversationCache& cached() { return cache_; }
    SimSession& session() { return session_; }
    [[nodiscard]] std::int64_t parked() const { return std::ssize(cache_.entries()); }
    [[nodiscard]] const CacheCounters& counters() const { return cache_.counters(); }
    [[nodiscard]] std::int64_t parks() const { return parks_; }
    [[nodiscard]] bool held() const { return held_; }  // bytes stayed within the budget throughout

  private:
    void park(const PromptPlan& plan, const Asked& asked, Said& said);
    void resume(const PromptPlan& plan, const SharedImage& image, const PromptMarks& marks,
                const Asked& asked);
    void read(const TokenIds& prompt, const PromptMarks& marks, const Asked& asked);
    void tell_live();
    void look();

    SimShape shape_;
    Position root_min_tokens_;
    ConversationCache cache_;
    SimSession session_;
    std::uint64_t conversations_ = 0;
    std::int64_t parks_ = 0;
    bool one_shot_ = false;
    bool incomplete_ = false;
    bool held_ = true;
};

}  // namespace strata::tests
