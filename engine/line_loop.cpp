// See engine/line_loop.hpp.
#include "engine/line_loop.hpp"

#include <chrono>
#include <utility>
#include <variant>

#include "engine/cache_lines.hpp"
#include "engine/command_to_request.hpp"
#include "engine/options.hpp"
#include "engine/outcome_to_done.hpp"

namespace strata {

namespace {

template <class... Cases>
struct Overloaded : Cases... {
    using Cases::operator()...;
};

// They change or tell what is parked.
bool about_books(const protocol::Command& command) {
    return std::holds_alternative<protocol::CacheCommand>(command) ||
           std::holds_alternative<protocol::TrimCommand>(command);
}

protocol::ErrLine unsupported(std::string_view verb) {
    return {protocol::ErrCode::unsupported, 0, false,
            std::string(verb) + " is a command that this engine does not have"};
}

}  // namespace

bool LineLoop::run() {
    put(info_line(engine_, version_number()));
    protocol::ReadyLine ready;
    ready.max_context = engine_.limits().context_tokens;
    ready.can.stop = true;
    ready.can.id = true;
    ready.can.cache_list = true;
    ready.can.ping = true;
    ready.batch = 1;
    put(ready);
    while (!broken_ && !inbox_.closed_and_empty()) {
        auto line = inbox_.wait_next(engine_.idle_wait());
        if (line) {
            answer(*std::move(line));
        } else if (inbox_.take_alarm()) {
            engine_.check_memory(PressureWhere::idle, *this);
        } else {
            engine_.idle_step(*this);
        }
    }
    return !broken_;
}

void LineLoop::answer_deferred() {
    for (auto& line : std::exchange(deferred_, {})) answer(std::move(line));
}

void LineLoop::answer(ReceivedLine line) {
    if (const auto* error = std::get_if<protocol::ParseError>(&line.what)) {
        put(protocol::refusal_of(*error));
        return;
    }
    auto& command = std::get<protocol::Command>(line.what);
    if (about_books(command) && engine_.moving()) {
        deferred_.push_back(std::move(line));
        return;
    }
    std::visit(
        Overloaded{
            [&](protocol::GenCommand& gen) { answer_gen(std::move(gen), line.at); },
            [&](const protocol::PingCommand& ping) { put(protocol::PongLine{ping.n}); },
            [&](const protocol::CacheCommand& command) { answer_cache(command); },
            [&](const protocol::TrimCommand&) { answer_trim(); },
            [&](const protocol::SaveCommand&) { put(unsupported(protocol::kSaveVerb)); },
            [&](const protocol::RestoreCommand&) { put(unsupported(protocol::kRestoreVerb)); },
            // The inbox acts on these two at once; they are never queued.
            [](const protocol::StopCommand&) {},
            [](const protocol::QuitCommand&) {},
        },
        command);
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
    answer_deferred();
    if (!outcome) {
        const protocol::ErrLine refusal = err_line(request, outcome.error());
        put(refusal);
        broken_ = refusal.fatal;
        if (broken_) log_("strata-engine: " + refusal.text);
        return;
    }
    if (outcome->planned) log_(report_of(*outcome));
    put(done_line(request, *outcome));
}

void LineLoop::answer_cache(const protocol::CacheCommand& command) {
    const EntryId entry = command.entry.value_or(0);
    bool known = true;
    switch (command.action) {
        case protocol::CacheAction::list:
            break;
        case protocol::CacheAction::drop:
            known = engine_.drop(entry, *this);
            break;
        case protocol::CacheAction::pin:
            known = engine_.pin(entry);
            break;
        case protocol::CacheAction::unpin:
            known = engine_.unpin(entry, *this);
            break;
        case protocol::CacheAction::clear:
            engine_.clear(*this);
            break;
    }
    if (known) return list_conversations();
    put(protocol::ErrLine{
        protocol::ErrCode::bad_field, 0, false,
        "entry is " + std::to_string(entry) + ", allowed are the entries of CACHE list"});
}

void LineLoop::list_conversations() {
    const ConversationCache& cache = engine_.conversations();
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    const std::int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
    for (const ParkedEntry& entry : cache.entries()) {
        put(cache_row_line(entry, cache.unique_bytes(entry.entry), now_ms));
    }
    protocol::CacheLine end;
    end.now = held_now();
    put(end);
}

protocol::HeldFigures LineLoop::held_now() const {
    const ConversationCache& cache = engine_.conversations();
    return held_figures(std::ssize(cache.entries()), cache.bytes(), cache.retained_bytes());
}

void LineLoop::answer_trim() {
    if (engine_.conversations().enabled())
        return engine_.check_memory(PressureWhere::command, *this);
    // Nothing is held and nothing is looked at: an answer all the same.
    PressureReport nothing;
    nothing.where = PressureWhere::command;
    put(pressure_line(nothing, 0));
}

void LineLoop::conversation(const ConversationEvent& event) {
    if (const auto text = event_text(event)) log_(*text);
    put(conv_line(event, running_ ? std::optional(running_->id) : std::nullopt));
}

void LineLoop::pressure(const PressureReport& report, double ms) {
    if (report.event) log_(pressure_text(report, ms));
    put(pressure_line(report, ms));
}

void LineLoop::resumed(const PromptPlan& plan, std::uint64_t conversation) {
    put(resume_line(running_->id, plan, conversation, held_now()));
}

void LineLoop::progress(Position position, double ms, double tokens_per_s) {
    put(protocol::ProgressLine{position, std::ssize(running_->prompt), ms, tokens_per_s,
                               running_->id});
}

void LineLoop::token(TokenId id, const std::optional<TokenReport>& report) {
    put(token_line(running_->id, id, report));
}

void LineLoop::step() {
    answer_deferred();
    while (auto line = inbox_.next()) answer(*std::move(line));
}

void LineLoop::put(const protocol::Event& event) {
    // Nobody reads any more: whatever runs has lost its purpose.
    if (!output_.write(protocol::format(event) + "\n")) inbox_.close();
}

}  // namespace strata
