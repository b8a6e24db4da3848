// See engine/line_loop.hpp.
#include "engine/line_loop.hpp"

#include <chrono>
#include <utility>
#include <variant>

#include "engine/command_to_request.hpp"
#include "engine/options.hpp"
#include "engine/outcome_to_done.hpp"

namespace strata {

namespace {

// After this long without a line, what only ended requests needed is given back: sooner would take
// it from the next turn of a person who types fast.
constexpr std::chrono::milliseconds kIdleAfterMs{2000};

template <class... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};

protocol::ErrLine unsupported(std::string_view verb) {
    return {protocol::ErrCode::unsupported, 0, false,
            std::string(verb) + " is a command that this engine does not have"};
}

}  // namespace

void LineLoop::run() {
    put(info_line(engine_, version_number()));
    protocol::ReadyLine ready;
    ready.max_context = engine_.limits().context_tokens;
    ready.can.stop = true;
    ready.can.id = true;
    ready.can.ping = true;
    ready.batch = 1;
    put(ready);
    while (!inbox_.closed_and_empty()) {
        const bool idle_work = engine_.idle_work();
        auto line = inbox_.wait_next(idle_work ? std::optional(kIdleAfterMs) : std::nullopt);
        if (line) {
            answer(*std::move(line));
        } else if (idle_work) {
            engine_.idle_step();
        }
    }
}

void LineLoop::answer(ReceivedLine line) {
    if (const auto* error = std::get_if<protocol::ParseError>(&line.what)) {
        put(protocol::refusal_of(*error));
        return;
    }
    std::visit(
        Overloaded{
            [&](protocol::GenCommand& gen) { answer_gen(std::move(gen), line.at); },
            [&](const protocol::PingCommand& ping) { put(protocol::PongLine{ping.n}); },
            [&](const protocol::CacheCommand&) { put(unsupported(protocol::kCacheVerb)); },
            [&](const protocol::TrimCommand&) { put(unsupported(protocol::kTrimVerb)); },
            [&](const protocol::SaveCommand&) { put(unsupported(protocol::kSaveVerb)); },
            [&](const protocol::RestoreCommand&) { put(unsupported(protocol::kRestoreVerb)); },
            // The inbox acts on these two at once; they are never queued.
            [](const protocol::StopCommand&) {},
            [](const protocol::QuitCommand&) {},
        },
        std::get<protocol::Command>(line.what));
}

void LineLoop::answer_gen(protocol::GenCommand command, TimePoint received) {
    if (running_ != nullptr) {
        board_.forget(command.id);
        put(protocol::ErrLine{protocol::ErrCode::busy, command.id, false,
                              "request " + std::to_string(running_->id) + " is running"});
        return;
    }
    if (const auto refusal = unsupported_part(command)) {
        board_.forget(command.id);
        put(*refusal);
        return;
    }
    const GenerateRequest request = request_of(std::move(command), received);
    running_ = &request;
    const auto outcome = engine_.generate(request, *this);
    running_ = nullptr;
    if (!outcome) {
        put(err_line(request, outcome.error()));
        return;
    }
    if (outcome->planned) log_(report_of(*outcome));
    put(done_line(request, *outcome));
}

void LineLoop::resumed(const PromptPlan& plan) {
    put(resume_line(running_->id, plan));
}

void LineLoop::progress(Position position, double ms, double tokens_per_s) {
    put(protocol::ProgressLine{position, std::ssize(running_->prompt), ms, tokens_per_s,
                               running_->id});
}

void LineLoop::token(TokenId id, const std::optional<TokenReport>& report) {
    put(token_line(running_->id, id, report));
}

void LineLoop::step() {
    while (auto line = inbox_.next()) answer(*std::move(line));
}

void LineLoop::put(const protocol::Event& event) {
    // Nobody reads any more: whatever runs has lost its purpose.
    if (!output_.write(protocol::format(event) + "\n")) inbox_.close();
}

}  // namespace strata
