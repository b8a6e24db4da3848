// The sentences about an engine's end.
#include "serve/supervisor/exit_report.hpp"

#include <algorithm>
#include <array>

#include <signal.h>
#include <string.h>

#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

// A refusal is explained by the last lines: usage hints and a summary fit into three.
constexpr std::size_t kOwnWordsLinesMax = 3;

// What a healthy engine writes to stderr in the course of its work: the one list of it. A line that
// also has the `fault` part tells of one and is no routine.
struct RoutineReport {
    std::string_view head;
    std::string_view part;
    std::string_view fault;
};
constexpr std::array kRoutineReports = std::to_array<RoutineReport>({
    {"prompt ", " tokens = ", "; failed: "},
    {"conversation cache: ", "", ""},
});

bool has_code(const EngineExit& end, EngineExitCode code) {
    return end.status && !end.status->signalled && end.status->number == static_cast<int>(code);
}

bool in_load(const EngineExit& end) {
    return end.phase == EnginePhase::spawn || end.phase == EnginePhase::load;
}

// The lines behind the last routine report: what was said before it did not end the engine.
std::string own_words(const EngineExit& end) {
    const auto begin = std::find_if(end.last_lines.rbegin(), end.last_lines.rend(), is_routine);
    const auto count = static_cast<std::size_t>(begin - end.last_lines.rbegin());
    std::string words;
    for (std::size_t i = std::min(count, kOwnWordsLinesMax); i > 0; --i) {
        if (!words.empty()) words += " | ";
        words += end.last_lines[end.last_lines.size() - i];
    }
    return words;
}

std::string signal_text(const EngineExit& end) {
    const int number = end.status->number;
    const char* const name = ::sigabbrev_np(number);
    std::string text = "ended by signal " + std::to_string(number);
    if (name != nullptr) text += std::string(" (SIG") + name + ")";
    if (end.status->core) text += ", core dumped,";
    if (number == SIGKILL && end.cause == EndCause::none && end.phase != EnginePhase::shutdown) {
        text +=
            end.oom_kills > 0
                ? ", which the kernel sent because memory ran out (oom_kill of its control group),"
                : ", which this server did not send (out of memory, or by hand),";
    }
    return text;
}

std::string_view code_text(int code) {
    switch (static_cast<EngineExitCode>(code)) {
        case EngineExitCode::bad_option:
            return " (an option was refused)";
        case EngineExitCode::model_refused:
            return " (the model file was refused)";
        case EngineExitCode::no_device:
            return " (no usable device, or not enough memory to load)";
        case EngineExitCode::fatal:
            return " (fatal while running)";
        case EngineExitCode::broken_invariant:
            return " (a broken invariant)";
        case EngineExitCode::clean:
            return " without being asked";
    }
    return "";
}

std::string status_text(const EngineExit& end) {
    if (!end.status) return "could not be started";
    if (end.status->signalled) return signal_text(end);
    std::string text = "exited with status " + std::to_string(end.status->number);
    const bool expected = end.phase == EnginePhase::shutdown && end.status->number == 0;
    if (!expected) text += code_text(end.status->number);
    return text;
}

std::string_view cause_words(EndCause cause) {
    switch (cause) {
        case EndCause::none:
            return "";
        case EndCause::exec_failed:
            return "it could not be executed";
        case EndCause::not_runnable:
            return "it cannot be executed";
        case EndCause::fatal_error:
            return "it reported a fatal error";
        case EndCause::no_pong:
            return "its main loop did not answer";
        case EndCause::no_progress:
            return "its request made no progress";
        case EndCause::load_stalled:
            return "its load made no progress";
        case EndCause::overlong_line:
            return "it wrote a line without end";
        case EndCause::stdin_overflow:
            return "it did not read its commands";
        case EndCause::stdin_closed:
            return "it closed its input";
        case EndCause::stdout_closed:
            return "it closed its output";
        case EndCause::leaving:
            return "it gave a request up without being asked and did not end";
        case EndCause::wrong_protocol:
            return "it speaks another version of the line protocol";
    }
    return "";
}

bool is_clean(const EngineExit& end) {
    return end.phase == EnginePhase::shutdown && !end.request_running;
}

}  // namespace

bool is_routine(std::string_view line) {
    return std::any_of(kRoutineReports.begin(), kRoutineReports.end(),
                       [line](const RoutineReport& report) {
                           const auto has = [line](std::string_view part) {
                               return line.find(part) != std::string_view::npos;
                           };
                           return line.starts_with(report.head) && has(report.part) &&
                                  (report.fault.empty() || !has(report.fault));
                       });
}

std::string_view phase_text(EnginePhase phase) {
    switch (phase) {
        case EnginePhase::spawn:
            return "before it began";
        case EnginePhase::load:
            return "while it loaded the model";
        case EnginePhase::idle:
            return "while it was idle";
        case EnginePhase::prefill:
            return "while it read a prompt";
        case EnginePhase::decode:
            return "while it wrote an answer";
        case EnginePhase::shutdown:
            return "while it was shut down";
    }
    return "";
}

ExitReport report_exit(const EngineExit& end) {
    ExitReport report;
    report.unexpected = !is_clean(end);
    const bool refused = in_load(end) && (has_code(end, EngineExitCode::bad_option) ||
                                          has_code(end, EngineExitCode::model_refused));
    const bool hopeless =
        end.cause == EndCause::wrong_protocol || end.cause == EndCause::not_runnable ||
        (has_code(end, EngineExitCode::no_device) && !defended(Defence::device_retry));
    report.retryable = !refused && !hopeless;

    report.text = "the engine ";
    report.text += status_text(end);
    if (end.status) {
        report.text += ' ';
        report.text += phase_text(end.phase);
    }
    if (end.cause != EndCause::none) {
        report.text += ": ";
        report.text += cause_words(end.cause);
        if (!end.cause_text.empty()) report.text += " (" + end.cause_text + ")";
    }
    const std::string words = own_words(end);
    if (report.unexpected && !words.empty()) report.text += "; its last words: " + words;
    return report;
}

}  // namespace strata::serve
