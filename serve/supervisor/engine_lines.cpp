// What the supervisor makes of a line, and its watch over the engine.
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "protocol/ping_command.hpp"
#include "serve/supervisor/defences.hpp"
#include "serve/supervisor/engine_supervisor.hpp"
#include "serve/supervisor/printable.hpp"

namespace strata::serve {

namespace {

// Of a foreign line: enough to see where it comes from.
constexpr std::size_t kForeignShownBytes = 200;
constexpr std::size_t kLogLineBytesMax = 4096;

}  // namespace

void EngineSupervisor::Reader::on_line(std::string_view line) {
    if (!stale()) return owner_.take_line(line);
    if (line.starts_with(protocol::kDoneVerb)) ++owner_.foreign_dones_;
    owner_.count_foreign(line);
}

void EngineSupervisor::Reader::on_stderr_line(std::string_view line) {
    if (stale()) return;
    std::string text = printable(line, kLogLineBytesMax);
    owner_.log_.engine_line(text);
    owner_.tail_.add(std::move(text));
}

void EngineSupervisor::Reader::on_stream_fault(StreamFault fault) {
    if (!stale()) owner_.take_stream_fault(fault);
}

void EngineSupervisor::Reader::on_exit(const ExitStatus& status) {
    if (!stale()) owner_.take_exit(status);
}

void EngineSupervisor::Reader::on_drained() {
    if (!stale()) owner_.take_drained();
}

void EngineSupervisor::take_line(std::string_view line) {
    const protocol::Parsed<protocol::Event> event = protocol::parse_event(line);
    if (!event.ok()) {
        count_foreign(line);
        if (!defended(Defence::foreign_text)) condemn(EndCause::overlong_line, "foreign text");
        return;
    }
    if (!take_event(*event)) count_foreign(line);
}

// A request that ends as cancelled although nobody asked for it: somebody told the engine to end.
template <class Line>
bool EngineSupervisor::gives_up(const Line& line) const {
    if constexpr (std::is_same_v<Line, protocol::DoneLine>) {
        return line.finish == protocol::Finish::cancel && desk_.runs_unstopped(epoch_, line.id);
    }
    return false;
}

bool EngineSupervisor::take_event(const protocol::Event& event) {
    return std::visit(
        [this, &event](const auto& line) {
            using Line = std::decay_t<decltype(line)>;
            constexpr bool kOfRequest = std::is_same_v<Line, protocol::ResumeLine> ||
                                        std::is_same_v<Line, protocol::ProgressLine> ||
                                        std::is_same_v<Line, protocol::TokenLine> ||
                                        std::is_same_v<Line, protocol::DoneLine>;
            constexpr bool kOfNobody = std::is_same_v<Line, protocol::SavedLine> ||
                                       std::is_same_v<Line, protocol::RestoredLine> ||
                                       std::is_same_v<Line, protocol::SessionErrorLine>;
            if constexpr (kOfRequest) {
                const bool leaving = gives_up(line);
                const bool taken = desk_.accept(epoch_, event);
                if (!taken && std::is_same_v<Line, protocol::DoneLine>) ++foreign_dones_;
                // What waits is the next engine's: this one would take it and end.
                if (leaving) expect_end(EndCause::leaving, "its answer ended as cancelled");
                note_idle();
                return taken;
            } else if constexpr (kOfNobody) {
                return true;
            } else {
                return take(line);
            }
        },
        event);
}

bool EngineSupervisor::take(const protocol::InfoLine& line) {
    now_.load_sign = time_.now();
    now_.info = now_.info ? protocol::merged(*now_.info, line) : line;
    const auto version = now_.info->protocol;
    const bool other = version && *version != protocol::kProtocolVersion;
    if (other && defended(Defence::protocol_match)) {
        condemn(EndCause::wrong_protocol, std::to_string(*version) + ", this server speaks " +
                                              std::to_string(protocol::kProtocolVersion));
    }
    return true;
}

bool EngineSupervisor::take(const protocol::LoadLine& line) {
    now_.load_sign = time_.now();
    if (!now_.load_began) now_.load_began = now_.load_sign;
    now_.load_done = line.bytes_done;
    now_.load_total = line.bytes_total;
    return true;
}

bool EngineSupervisor::take(const protocol::ReadyLine& line) {
    if (now_.ready_at) return false;
    const TimePoint now = time_.now();
    now_.ready_at = now;
    now_.last_ping = now;
    now_.last_pong = now;
    now_.can_ping = line.can.ping;
    now_.can_list = line.can.cache_list;
    now_.max_context = line.max_context;
    record_.load_failures = 0;
    if (running() && !now_.condemned) step(LifeEvent::ready);
    return true;
}

bool EngineSupervisor::take(const protocol::PongLine& line) {
    if (line.n == 0 || line.n > now_.pings) return false;
    now_.last_pong = time_.now();
    return true;
}

bool EngineSupervisor::take(const protocol::ErrLine& line) {
    const std::string text =
        std::string(protocol::word(line.code)) + ": " + printable(line.text, kLogLineBytesMax);
    if (line.fatal) {
        latch(EndCause::fatal_error, text);
        expect_end(EndCause::fatal_error, text);
        return true;
    }
    if (line.id == 0) {
        if (cache_desk_.refuse(line)) return true;
        log_.event("the engine refused a command: " + text);
        return true;
    }
    const bool taken = desk_.accept(epoch_, line);
    note_idle();
    return taken;
}

bool EngineSupervisor::take(const protocol::ConvLine& line) {
    if (line.id && !desk_.accept(epoch_, line)) return false;
    if (observer_ != nullptr) observer_->on_conversation(epoch_, line);
    return true;
}

bool EngineSupervisor::take(const protocol::PressureLine& line) {
    if (observer_ != nullptr) observer_->on_pressure(epoch_, line);
    return true;
}

bool EngineSupervisor::take(const protocol::CacheLine& line) {
    if (!cache_desk_.waits()) return false;
    if (line.row) {
        ++now_.listed;
    } else {
        protocol::HeldFigures held = line.now;
        held.parked = std::exchange(now_.listed, 0);
        if (observer_ != nullptr) observer_->on_parked_list(epoch_, held);
    }
    return cache_desk_.take(line);
}

void EngineSupervisor::count_foreign(std::string_view line) {
    ++foreign_lines_;
    if (std::exchange(now_.foreign_logged, true)) return;
    log_.event("engine " + std::to_string(epoch_) +
               " wrote a line of no running request, dropped as all like it: " +
               printable(line, kForeignShownBytes));
}

SignsOfLife EngineSupervisor::signs() const {
    SignsOfLife signs;
    if (!running() || now_.condemned || ends_as_told(life_)) return signs;
    if (!now_.ready_at) {
        signs.last_load_progress = now_.load_sign;
        return signs;
    }
    if (now_.can_ping) {
        signs.last_ping = now_.last_ping;
        signs.last_pong = now_.last_pong;
    }
    signs.last_progress = desk_.last_progress();
    return signs;
}

void EngineSupervisor::set_look() {
    const std::optional<TimePoint> when = next_look(signs(), config_.liveness);
    if (!when || !defended(Defence::watchdog)) {
        look_alarm_->clear();
        return;
    }
    look_planned_ = *when;
    look_alarm_->set(*when, [this] { look(); });
}

void EngineSupervisor::forgive(Milliseconds late) {
    const TimePoint now = time_.now();
    now_.last_pong = std::min(now_.last_pong + late, now);
    now_.load_sign = std::min(now_.load_sign + late, now);
    desk_.forgive(late);
}

void EngineSupervisor::look() {
    const TimePoint now = time_.now();
    const auto late = std::chrono::duration_cast<Milliseconds>(now - look_planned_);
    if (late > kOwnStall && defended(Defence::own_stall)) forgive(late);
    const auto limit_text = [](Milliseconds limit) {
        return "nothing for " + std::to_string(limit.count()) + " ms";
    };
    switch (judge(signs(), config_.liveness, now)) {
        case Liveness::alive:
            break;
        case Liveness::no_pong:
            condemn(EndCause::no_pong, limit_text(config_.liveness.pong));
            return;
        case Liveness::no_progress:
            condemn(EndCause::no_progress, limit_text(config_.liveness.progress));
            return;
        case Liveness::load_stalled:
            condemn(EndCause::load_stalled, limit_text(config_.liveness.progress));
            return;
    }
    if (ping_due(signs(), config_.liveness, now)) {
        now_.last_ping = now;
        now_.process->write_line(protocol::format(protocol::PingCommand{++now_.pings}));
    }
    set_look();
}

}  // namespace strata::serve
