// The engine's conversation with its server: commands come out of the inbox, events go to the
// output. Runs on the main thread; while a request runs it answers PING (and refuses what cannot be
// done meanwhile) between two chunks and between two tokens.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/command_inbox.hpp"
#include "engine/host/output.hpp"
#include "protocol/event.hpp"
#include "strata/engine.hpp"

namespace strata {

using Log = std::function<void(std::string_view line)>;  // one line for people, without LF

class LineLoop : private EngineEvents {
  public:
    // All must outlive the loop. `board` is the inbox's and the engine's.
    LineLoop(Engine& engine, CommandInbox& inbox, StopBoard& board, LineOutput& output, Log log)
        : engine_(engine), inbox_(inbox), board_(board), output_(output), log_(std::move(log)) {}

    // Says what the engine is and that it is ready, then answers until the inbox is closed and
    // empty. False: the engine cannot go on, and a line has said why.
    [[nodiscard]] bool run();

  private:
    void resumed(const PromptPlan& plan, std::uint64_t conversation) override;
    void progress(Position position, double ms, double tokens_per_s) override;
    void token(TokenId id, const std::optional<TokenReport>& report) override;
    void step() override;
    void conversation(const ConversationEvent& event) override;
    void pressure(const PressureReport& report, double ms) override;

    void answer(ReceivedLine line);
    void answer_deferred();
    void answer_cache(const protocol::CacheCommand& command);
    void list_conversations();
    protocol::HeldFigures held_now() const;
    void answer_trim();
    void answer_gen(protocol::GenCommand command, TimePoint received);
    void put(const protocol::Event& event);

    Engine& engine_;
    CommandInbox& inbox_;
    StopBoard& board_;
    LineOutput& output_;
    Log log_;
    const GenerateRequest* running_ = nullptr;  // while generate() runs
    std::vector<ReceivedLine> deferred_;        // about the books, while a conversation moves
    bool broken_ = false;                       // the engine cannot go on
};

}  // namespace strata
