// The sentences about an engine's end, over the whole matrix of statuses, signals and phases.
#include "serve/supervisor/exit_report.hpp"

#include <catch2/catch.hpp>
#include <signal.h>

#include "serve/supervisor/printable.hpp"
#include "serve/supervisor/stderr_tail.hpp"

using namespace strata::serve;

namespace {

constexpr EnginePhase kPhases[] = {EnginePhase::load, EnginePhase::idle, EnginePhase::prefill,
                                   EnginePhase::decode, EnginePhase::shutdown};

EngineExit exited(int code, EnginePhase phase, bool request = false) {
    EngineExit end;
    end.status = ExitStatus{false, code, false};
    end.phase = phase;
    end.request_running = request;
    return end;
}

EngineExit signalled(int number, EnginePhase phase) {
    EngineExit end;
    end.status = ExitStatus{true, number, false};
    end.phase = phase;
    return end;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("every exit status in every phase is told with its number and its phase") {
    for (const EnginePhase phase : kPhases) {
        for (int code = 0; code <= 255; ++code) {
            const ExitReport report = report_exit(exited(code, phase));
            INFO(report.text);
            CHECK(contains(report.text, "exited with status " + std::to_string(code)));
            CHECK(contains(report.text, std::string(phase_text(phase))));
            CHECK(report.unexpected == (phase != EnginePhase::shutdown));
            const bool refused = phase == EnginePhase::load && (code == 2 || code == 3);
            CHECK(report.retryable == !refused);
        }
    }
}

TEST_CASE("every signal in every phase is told with its number and its name") {
    for (const EnginePhase phase : kPhases) {
        for (int number = 1; number < 32; ++number) {
            const ExitReport report = report_exit(signalled(number, phase));
            CHECK(contains(report.text, "ended by signal " + std::to_string(number) + " (SIG"));
            CHECK(contains(report.text, std::string(phase_text(phase))));
            CHECK(report.retryable);
        }
    }
    CHECK(contains(report_exit(signalled(SIGSEGV, EnginePhase::decode)).text, "(SIGSEGV)"));
}

TEST_CASE("status 0 is an unexpected end while a request runs or nobody asked") {
    CHECK(report_exit(exited(0, EnginePhase::decode, true)).unexpected);
    CHECK(contains(report_exit(exited(0, EnginePhase::idle)).text, "without being asked"));
    CHECK(report_exit(exited(0, EnginePhase::shutdown)).text ==
          "the engine exited with status 0 while it was shut down");
    CHECK(report_exit(exited(0, EnginePhase::shutdown, true)).unexpected);
    CHECK_FALSE(report_exit(exited(0, EnginePhase::shutdown)).unexpected);
}

TEST_CASE("a core dump is told") {
    EngineExit end = signalled(SIGABRT, EnginePhase::decode);
    end.status->core = true;
    CHECK(contains(report_exit(end).text, "core dumped"));
}

TEST_CASE("a kill that this server did not send points at memory") {
    EngineExit end = signalled(SIGKILL, EnginePhase::decode);
    CHECK(contains(report_exit(end).text, "this server did not send"));
    end.oom_kills = 1;
    CHECK(contains(report_exit(end).text, "memory ran out"));
    end.cause = EndCause::no_pong;
    CHECK_FALSE(contains(report_exit(end).text, "memory"));
}

TEST_CASE("the first cause and the engine's last words are part of the sentence") {
    EngineExit end = exited(5, EnginePhase::decode, true);
    end.cause = EndCause::fatal_error;
    end.cause_text = "device_lost: gone";
    end.last_lines = {"one", "two", "three", "four"};
    const std::string text = report_exit(end).text;
    CHECK(contains(text, "it reported a fatal error (device_lost: gone)"));
    CHECK(contains(text, "its last words: two | three | four"));
}

TEST_CASE("reports of ordinary work are no last words") {
    const std::string report = "prompt 12 tokens = 0 reused + 12 read (source cold) in 4 ms";
    EngineExit end = signalled(SIGKILL, EnginePhase::decode);
    end.last_lines = {"an old complaint", report, report};
    CHECK_FALSE(contains(report_exit(end).text, "last words"));
    end.last_lines.push_back("terminate called");
    CHECK(contains(report_exit(end).text, "its last words: terminate called"));
    CHECK_FALSE(contains(report_exit(end).text, "reused"));
    CHECK_FALSE(contains(report_exit(end).text, "old complaint"));
}

TEST_CASE("what the conversation cache did for others is nobody's last word") {
    CHECK(
        is_routine("conversation cache: parked 24 tokens in 9 ms; parked=4 bytes=7929856 "
                   "evictions=0 new_bytes=7929856 shared_bytes=0"));
    CHECK(is_routine(
        "conversation cache: skip parking (needs 423 MiB, 20 MiB of 450 MiB available)"));
    CHECK(
        is_routine("conversation cache: RAM below the floor: released 2 dialogs, 2180 MiB "
                   "(dropped) in 131 ms; idle: 9761 -> 11901 MiB available, floor 10240 MiB + "
                   "1024; parked=1"));
    CHECK_FALSE(is_routine("strata-engine: the restored conversation differs from its snapshot"));
}

TEST_CASE("a report of a failed request and a refused option are last words") {
    CHECK_FALSE(is_routine("prompt 12 tokens = 0 reused + 12 read in 4 ms; failed: no memory"));
    CHECK_FALSE(is_routine("strata-engine: --max-context 12x is no number"));
    CHECK_FALSE(is_routine("the prompt 12 tokens = bad"));
}

TEST_CASE("a refused model is told in the engine's own words and not retried") {
    EngineExit end = exited(3, EnginePhase::load);
    end.last_lines = {"model.gguf: tensor count 9999999 is over 65536"};
    const ExitReport report = report_exit(end);
    CHECK_FALSE(report.retryable);
    CHECK(contains(report.text, "tensor count 9999999 is over 65536"));
    CHECK(contains(report.text, "the model file was refused"));
}

TEST_CASE("a missing device has its own sentence and is retried") {
    const ExitReport report = report_exit(exited(4, EnginePhase::load));
    CHECK(report.retryable);
    CHECK(contains(report.text, "no usable device, or not enough memory"));
}

TEST_CASE("another protocol version is not retried") {
    EngineExit end = signalled(SIGABRT, EnginePhase::load);
    end.cause = EndCause::wrong_protocol;
    CHECK_FALSE(report_exit(end).retryable);
}

TEST_CASE("text of a stranger becomes printable") {
    CHECK(printable("plain \xC3\xA4\xE2\x82\xAC\xF0\x9F\xA6\xA6", 100) ==
          "plain \xC3\xA4\xE2\x82\xAC\xF0\x9F\xA6\xA6");
    CHECK(printable("\x1B[31m\x07\x7F", 100) == "\\x1B[31m\\x07\\x7F");
    CHECK(printable("\xC3", 100) == "\\xC3");
    CHECK(printable("\xC0\x80", 100) == "\\xC0\\x80");
    CHECK(printable("\xED\xA0\x80", 100) == "\\xED\\xA0\\x80");
    CHECK(printable("\xF4\x90\x80\x80", 100) == "\\xF4\\x90\\x80\\x80");
    CHECK(printable("\xE2\x82", 100) == "\\xE2\\x82");
    CHECK(printable("0123456789", 4) == "0123...");
}

TEST_CASE("the log tail keeps the newest fifty lines and counts the others") {
    StderrTail tail;
    for (int i = 0; i < 120; ++i) tail.add(std::to_string(i));
    CHECK(tail.lines().size() == kStderrTailLines);
    CHECK(tail.lines().front() == "70");
    CHECK(tail.lines().back() == "119");
    CHECK(tail.dropped() == 70);
}
