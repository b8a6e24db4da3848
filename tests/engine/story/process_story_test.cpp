// The engine's process on the fake model: what it prints, how it ends, and that nothing keeps it
// alive (rows C2, C5 to C7, C17 and C18 of the reliability table, from the engine's side).
#include <algorithm>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/fake_model_process.hpp"
#include "../../support/process_epilogue.hpp"

namespace strata::tests {
namespace {

using Ms = PipedEngine::Ms;
using Clock = std::chrono::steady_clock;

// True once the process waits for SIGTERM instead of dying of it; false when it has left before.
bool claims_signals(pid_t pid) {
    const auto began = Clock::now();
    while (ms_since(began) < 20'000) {
        std::ifstream status("/proc/" + std::to_string(pid) + "/status");
        for (std::string line; std::getline(status, line);) {
            if (line.starts_with("State:") && line.find('Z') != line.npos) return false;
            if (!line.starts_with("SigBlk:")) continue;
            const auto blocked = std::stoull(line.substr(line.find('\t') + 1), nullptr, 16);
            if ((blocked >> (SIGTERM - 1) & 1) != 0) return true;
        }
        std::this_thread::sleep_for(Ms(2));
    }
    return false;
}

// How long an engine takes to leave, with 0, when it is asked to.
std::int64_t leave_ms(PipedEngine& engine, const std::string& how = "EOF") {
    const auto began = Clock::now();
    if (how == "QUIT") engine.send("QUIT");
    if (how == "EOF") engine.close_stdin();
    if (how == "TERM") engine.signal(SIGTERM);
    if (how == "INT") engine.signal(SIGINT);
    const auto end = engine.wait();
    const auto took = ms_since(began);
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 0);
    return took;
}

// How long an idle engine takes to leave; until then it uses no time.
std::int64_t idle_leave_ms(const std::string& how) {
    FakeModelProcess engine("hybrid");
    engine.await_ready();
    engine.send(gen(1, 2, prompt_of(300)));
    engine.lines_until("DONE");
    // Longer than the wait after which an idle engine tidies up.
    std::this_thread::sleep_for(Ms(how == "QUIT" ? 2500 : 100));
    const long before = cpu_ticks_of(engine.pid());
    std::this_thread::sleep_for(Ms(500));
    CHECK(cpu_ticks_of(engine.pid()) - before <= 1);
    return leave_ms(engine, how);
}

// How long an engine outlives its parent. A parent is between this test and the engine; the
// engine's stdin is kept open by this test.
std::int64_t orphan_ms(const std::string& state) {
    ProcessEpilogue epilogue;  // adopts the orphan, so that it is not process 1 that does
    int in[2];
    int out[2];
    REQUIRE(::pipe(in) == 0);
    REQUIRE(::pipe(out) == 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
        const std::string own = std::to_string(::getpid());
        const pid_t child = ::fork();
        if (child == 0) {
            ::dup2(in[0], STDIN_FILENO);
            ::dup2(out[1], STDOUT_FILENO);
            ::execl(kFakeModelProgram.c_str(), kFakeModelProgram.c_str(), "--model",
                    "hybrid,stuck_at=64", "--chunk-ms", "0", "--chunk-tokens", "64", "--parent-pid",
                    own.c_str(), nullptr);
            ::_exit(127);
        }
        ::pause();
        ::_exit(0);
    }
    ::close(out[1]);
    ::close(in[0]);
    std::string text;
    char byte = 0;
    const std::string request = gen(1, 5, prompt_of(300)) + "\n";
    const std::string awaited = state == "idle" ? "READY" : "PP ";
    bool sent = false;
    while (text.find(awaited) == std::string::npos && ::read(out[0], &byte, 1) == 1) {
        text += byte;
        if (!sent && state == "stuck" && text.find("READY") != std::string::npos) {
            sent = ::write(in[1], request.data(), request.size()) > 0;
        }
    }
    const auto began = Clock::now();
    ::kill(parent, SIGKILL);
    REQUIRE(::waitpid(parent, nullptr, 0) == parent);
    while (::read(out[0], &byte, 1) == 1) continue;  // ends when the engine is gone
    const auto took = ms_since(began);
    ::close(out[0]);
    ::close(in[1]);
    while (::waitpid(-1, nullptr, 0) > 0) continue;  // the orphan is this test's now
    CHECK(epilogue.leftovers().empty());
    return took;
}

}  // namespace

TEST_CASE("the start says how far it is then what the engine is then that it is ready") {
    FakeModelProcess engine("hybrid,load_ms=700", {"--max-context", "1000"});
    const auto lines = engine.lines_until("READY");
    REQUIRE(lines.size() >= 4);
    CHECK(lines.front() == "LOAD 0 100");
    CHECK(std::count(lines.begin(), lines.end(), "LOAD 100 100") == 1);
    const std::string& info = lines[lines.size() - 2];
    REQUIRE(info.starts_with("INFO "));
    CHECK(named(info, "protocol") == "1");
    CHECK(named(info, "context") == "1000");
    CHECK(named(info, "vocab") == "97");
    CHECK(named(info, "kv") == "f16");
    CHECK(named(info, "page_tokens") == "256");
    CHECK(named(info, "batch") == "1");
    CHECK(named(info, "steer") == "0");
    CHECK(named(info, "prompt_cache") == "6");
    CHECK(named(info, "prompt_cache_every") == "16384");
    CHECK(named(info, "prompt_cache_root") == "2048");
    CHECK(named(info, "conversation_cache_mib") == "0");
    CHECK(named(info, "kv_bytes_per_token") == "48");
    CHECK(named(info, "state_bytes") == "112");
    CHECK(named(info, "model_id") == "fa4e");
    CHECK(lines.back() == "READY 1000 stop id cache ping batch=1");
    engine.leave();
}

TEST_CASE("a request is answered by resume then progress then tokens then done") {
    FakeModelProcess engine("hybrid");
    engine.await_ready();
    const TokenIds prompt = prompt_of(100);
    engine.send(gen(7, 5, prompt, " label=a_chat hash=1"));
    const auto lines = engine.lines_until("DONE");
    REQUIRE(lines.size() == 10);
    CHECK(lines[0] == "RESUME 0 id=7 source=cold conv=1 parked=0 held=0 retained=0");
    CHECK(lines[1].starts_with("PP 64 100 "));
    CHECK(lines[2].starts_with("PP 98 100 "));
    CHECK(lines[3].starts_with("PP 100 100 "));
    const TokenIds answer = fake_answer({true, 97, 64}, prompt, 5);
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK(lines[4 + i] == "T " + std::to_string(answer[i]) + " id=7");
    }
    const std::string& done = lines[9];
    const std::vector<std::pair<std::size_t, std::string>> expected{
        {1, "5"},    {2, "100"}, {5, "length"}, {6, "0"},  {7, "0"},  {8, "0"},
        {14, "100"}, {15, "1"},  {16, "0"},     {17, "0"}, {18, "0"}, {19, "0"}};
    for (const auto& [index, value] : expected) {
        INFO(done << " field " << index);
        CHECK(field(done, index) == value);
    }
    CHECK(named(done, "id") == "7");
    CHECK(named(done, "conv") == "1");
    CHECK(named(done, "label") == "a_chat");
    CHECK(named(done, "source") == "cold");
    CHECK(named(done, "miss") == "new");
    CHECK(named(done, "common") == "0");
    CHECK(named(done, "checkpoints") == "1");
    CHECK(named(done, "stop_id").empty());
    CHECK(named(done, "logits_sha256").size() == 64);
    CHECK(named(done, "state_sha256").size() == 64);
    CHECK(std::stod(named(done, "queue_ms")) >= 0);
    CHECK_THAT(engine.stderr_text(),
               Catch::Contains("prompt 100 tokens = 0 reused + 100 read (source cold)"));
    engine.leave();
}

TEST_CASE("logprobs come with each token when asked for") {
    FakeModelProcess engine("hybrid");
    engine.await_ready();
    engine.send(gen(1, 3, prompt_of(20), " logprobs=4"));
    for (const auto& line : engine.lines_until("DONE")) {
        if (!line.starts_with("T ")) continue;
        CHECK(std::stod(named(line, "lp")) < 0);
        const std::string top = named(line, "top");
        CHECK(std::count(top.begin(), top.end(), ':') == 4);
        // Greedy: the token told is the most probable one.
        CHECK(top.starts_with(field(line, 1) + ":"));
    }
    engine.leave();
}

TEST_CASE("every refusal has its code and its id and leaves the engine in step") {
    FakeModelProcess engine("hybrid", {"--max-context", "200"});
    engine.await_ready();
    const TokenIds prompt = prompt_of(20);
    const std::vector<std::pair<std::string, std::string>> cases{
        {"HELLO there", "ERR bad_line id=0"},
        {"GEN 5 id=3 temperature=-1 ids=10,11", "ERR bad_field id=3"},
        {"GEN 5 id=3 top_p=0 ids=10,11", "ERR bad_field id=3"},
        {"GEN 5 id=3 seed=1 seed=2 ids=10,11", "ERR bad_field id=3"},
        {"GEN 5 id=4 ids=10,97", "ERR bad_token id=4"},
        {"GEN 5 id=4 stop=97 ids=10", "ERR bad_token id=4"},
        {gen(5, 181, prompt), "ERR too_long id=5"},
        {gen(6, 5, prompt, " root=21"), "ERR bad_field id=6"},
        {gen(6, 5, prompt, " steer=calm"), "ERR bad_field id=6"},
        {gen(6, 5, prompt, " grammar=g1"), "ERR unsupported id=6"},
        {"CACHE drop entry=9", "ERR bad_field id=0"},
        {"SAVE path=/tmp/x", "ERR unsupported id=0"},
        {"RESTORE path=/tmp/x", "ERR unsupported id=0"},
    };
    for (const auto& [line, answer] : cases) {
        INFO(line);
        engine.send(line);
        const auto got = engine.next_line();
        REQUIRE(got);
        CHECK(got->starts_with(answer + " "));
        CHECK_FALSE(named(*got, "text").empty());
    }
    engine.send(gen(5, 181, prompt));
    const std::string too_long = engine.next_line().value_or("");
    CHECK_THAT(too_long, Catch::Contains("20") && Catch::Contains("181") && Catch::Contains("200"));
    engine.send("CACHE list");  // nothing is parked
    CHECK(engine.next_line() == "CACHE end parked=0 held=0 retained=0");
    engine.send("TRIM");
    const std::string pressure = engine.next_line().value_or("");
    CHECK(pressure.starts_with("PRESSURE "));
    CHECK(named(pressure, "where") == "command");
    CHECK(named(pressure, "released_dialogs") == "0");
    engine.send("STOP id=99");  // of nobody: no answer at all
    engine.send("PING 12");
    CHECK(engine.next_line() == "PONG 12");
    engine.send(gen(8, 2, prompt, " steer=off"));
    CHECK(engine.lines_until("DONE").size() > 3);
    engine.leave();
}

TEST_CASE("a request is steered by the name that it gives and by none without") {
    FakeModelProcess engine("hybrid", {"--max-context", "200", "--control-vector", "wind=w.gguf",
                                       "--control-vector=rain=r.gguf:2"});
    engine.await_ready();
    const TokenIds prompt = prompt_of(20);
    const auto logits = [&](const std::string& names) {
        engine.send(gen(7, 2, prompt, " hash=1" + names));
        return named(engine.lines_until("DONE").back(), "logits_sha256");
    };
    const std::string plain = logits("");
    CHECK(logits(" steer=off") == plain);
    const std::string wind = logits(" steer=wind");
    CHECK(wind != plain);
    CHECK(logits(" steer=rain") != wind);
    CHECK(logits(" steer=wind") == wind);
    engine.send(gen(8, 2, prompt, " steer=storm"));
    const std::string refused = engine.next_line().value_or("");
    CHECK(refused.starts_with("ERR bad_field id=8 "));
    CHECK_THAT(refused, Catch::Contains("steer is storm, allowed: off, wind, rain"));
    engine.leave();
}

TEST_CASE("a line that is too long is refused and the next one is read") {
    FakeModelProcess engine("hybrid");
    engine.await_ready();
    std::string flood = "GEN 5 id=9 ids=10";
    flood.resize((std::size_t{64} << 20) + 10, '1');
    engine.send(flood);
    const auto refused = engine.next_line();
    REQUIRE(refused);
    CHECK(refused->starts_with("ERR bad_line id=9 "));
    engine.send("PING 1");
    CHECK(engine.next_line() == "PONG 1");
    engine.leave();
}

TEST_CASE(
    "while a request runs another one is busy and PING is answered between chunks and tokens") {
    FakeModelProcess engine("hybrid,pass_ms=30");
    engine.await_ready();
    engine.send(gen(1, 10, prompt_of(400)));
    engine.lines_until("PP");
    engine.send("PING 5");
    const auto reading = engine.lines_until("PONG 5");
    REQUIRE_FALSE(reading.empty());
    engine.send(gen(2, 3, prompt_of(20)));
    const auto busy = engine.lines_until("ERR");
    REQUIRE_FALSE(busy.empty());
    CHECK(busy.back().starts_with("ERR busy id=2 "));
    engine.lines_until("T ");
    engine.send("PING 6");
    const auto writing = engine.lines_until("PONG 6");
    REQUIRE_FALSE(writing.empty());
    const auto done = engine.lines_until("DONE");
    REQUIRE_FALSE(done.empty());
    CHECK(field(done.back(), 1) == "10");
    CHECK(named(done.back(), "id") == "1");
    engine.leave();
}

TEST_CASE("a stop is seen within a chunk and within a token") {
    FakeModelProcess engine("hybrid,pass_ms=50");
    engine.await_ready();
    constexpr std::int64_t kInTimeMs = 500 + kSanitizerMs;
    std::uint64_t id = 0;
    CHECK(fastest_of(kInTimeMs, [&] {
              ++id;
              engine.send(gen(id, 500, prompt_of(2000, id)));
              engine.lines_until("PP");
              const auto began = Clock::now();
              engine.send("STOP id=" + std::to_string(id));
              const auto done = engine.lines_until("DONE");
              const auto took = ms_since(began);
              REQUIRE_FALSE(done.empty());
              CHECK(field(done.back(), 5) == "cancel");
              CHECK(std::stol(field(done.back(), 14)) < 2000);
              return took;
          }) < kInTimeMs);
    CHECK(fastest_of(kInTimeMs, [&] {
              ++id;
              engine.send(gen(id, 500, prompt_of(20, id)));
              engine.lines_until("T ");
              const auto began = Clock::now();
              engine.send("STOP");
              const auto done = engine.lines_until("DONE");
              const auto took = ms_since(began);
              REQUIRE_FALSE(done.empty());
              CHECK(field(done.back(), 5) == "cancel");
              CHECK(named(done.back(), "id") == std::to_string(id));
              return took;
          }) < kInTimeMs);
    engine.leave();
}

TEST_CASE("a stop that is written together with its request is not lost") {
    FakeModelProcess engine("hybrid,pass_ms=20");
    engine.await_ready();
    engine.send_raw(gen(1, 1000, prompt_of(200)) + "\nSTOP id=1\n");
    const auto done = engine.lines_until("DONE");
    REQUIRE_FALSE(done.empty());
    CHECK(field(done.back(), 5) == "cancel");
    engine.leave();
}

TEST_CASE("QUIT and end of input and SIGTERM end the running request as cancelled") {
    const std::string how = GENERATE(as<std::string>{}, "QUIT", "EOF", "TERM");
    const bool writing = GENERATE(false, true);
    INFO(how << (writing ? " while writing" : " while reading"));
    const ProcessEpilogue epilogue;
    constexpr std::int64_t kInTimeMs = 1500 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [&] {
              FakeModelProcess engine("hybrid,pass_ms=40");
              engine.await_ready();
              engine.send(gen(3, 1000, prompt_of(writing ? 20 : 3000)));
              engine.lines_until(writing ? "T " : "PP");
              const auto began = Clock::now();
              if (how == "QUIT") engine.send("QUIT");
              if (how == "EOF") engine.close_stdin();
              if (how == "TERM") engine.signal(SIGTERM);
              const auto done = engine.lines_until("DONE");
              REQUIRE_FALSE(done.empty());
              CHECK(field(done.back(), 5) == "cancel");
              CHECK(named(done.back(), "id") == "3");
              CHECK(engine.rest().empty());
              const auto end = engine.wait();
              const auto took = ms_since(began);
              REQUIRE(end);
              CHECK(end->exited);
              CHECK(end->status == 0);
              return took;
          }) < kInTimeMs);
    CHECK(epilogue.leftovers().empty());
}

TEST_CASE("an idle engine leaves at once and uses no time until then") {
    const std::string how = GENERATE(as<std::string>{}, "QUIT", "EOF", "TERM", "INT");
    constexpr std::int64_t kInTimeMs = 1000 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [&] { return idle_leave_ms(how); }) < kInTimeMs);
}

TEST_CASE("a stuck kernel does not keep the process when its input ends") {
    constexpr std::int64_t kInTimeMs = 2000 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [] {
              FakeModelProcess engine("hybrid,stuck_at=64");
              engine.await_ready();
              engine.send(gen(1, 5, prompt_of(300)));
              engine.lines_until("PP");
              return leave_ms(engine);
          }) < kInTimeMs);
}

TEST_CASE("a load does not keep the process when its input ends") {
    constexpr std::int64_t kInTimeMs = 1000 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [] {
              FakeModelProcess engine("hybrid,load_ms=60000");
              std::this_thread::sleep_for(Ms(100));
              return leave_ms(engine);
          }) < kInTimeMs);
}

TEST_CASE("a reader that stands still holds the engine back and loses nothing") {
    FakeModelProcess engine("hybrid,vocabulary=20000", {"--max-context", "30000"});
    engine.await_ready();
    // More than a pipe holds: the engine waits in write while nobody reads.
    engine.send(gen(1, 1500, prompt_of(20), " logprobs=20"));
    std::this_thread::sleep_for(Ms(1500));
    engine.send("PING 8");
    std::size_t tokens = 0;
    bool pong = false;
    while (auto line = engine.next_line(Ms(30'000))) {
        tokens += line->starts_with("T ") ? 1 : 0;
        pong = pong || *line == "PONG 8";
        if (line->starts_with("DONE")) break;
    }
    CHECK(tokens == 1500);
    CHECK(pong);
    engine.leave();
}

TEST_CASE("an engine that waits in write is gone soon after its input ended") {
    constexpr std::int64_t kInTimeMs = 2000 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [] {
              FakeModelProcess engine("hybrid,vocabulary=20000", {"--max-context", "30000"});
              engine.await_ready();
              engine.send(gen(1, 20000, prompt_of(20), " logprobs=20"));
              std::this_thread::sleep_for(Ms(500));
              return leave_ms(engine);
          }) < kInTimeMs);
}

TEST_CASE("a reader that goes away ends the engine without a signal") {
    FakeModelProcess engine("hybrid,pass_ms=5");
    engine.await_ready();
    engine.send(gen(1, 4000, prompt_of(20)));
    engine.lines_until("T ");
    engine.close_stdout();
    const auto end = engine.wait();
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 0);
}

TEST_CASE("what a library prints lands on stderr and never between two events") {
    FakeModelProcess engine("hybrid,talks");
    engine.await_ready();
    engine.send(gen(1, 3, prompt_of(20)));
    for (const auto& line : engine.lines_until("DONE")) CHECK(line.find("text by") == line.npos);
    engine.leave();
    const std::string errors = engine.stderr_text();
    for (const char* text : {"text by printf", "text by a stream", "text by write"}) {
        CHECK_THAT(errors, Catch::Contains(text));
    }
}

TEST_CASE("a model file that shrinks under its mapping ends the engine with a message") {
    FakeModelProcess engine("hybrid,bus_at=64");
    engine.await_ready();
    engine.send(gen(1, 3, prompt_of(200)));
    const auto end = engine.wait();
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 5);
    const auto lines = engine.rest();
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.back().starts_with("ERR internal id=0 fatal=1 "));
    CHECK_THAT(engine.stderr_text(), Catch::Contains("the model file changed"));
}

TEST_CASE("a start that fails says why and leaves with its own status") {
    struct Case {
        std::vector<std::string> arguments;
        int status;
        std::string text;
    };
    const std::vector<Case> cases{
        {{"--model", "refused"}, 3, "the model file is not one"},
        {{"--model", "too_large"}, 4, "not enough memory to load too_large"},
        {{}, 2, "--model is not set"},
        {{"--model", "x", "--kv", "f8"}, 2, "--kv is \"f8\", allowed: f16, f32"},
        {{"--model", "x", "--max-contxt", "5"}, 2, "the closest is --max-context"},
        {{"--model", "hybrid", "--turn-token", "97"}, 2, "turn-token is 97"},
        {{"--model", "x", "--parent-pid", "1"}, 0, "the parent is gone"},
    };
    for (const Case& each : cases) {
        INFO(each.text);
        PipedEngine engine(kFakeModelProgram, each.arguments);
        const auto end = engine.wait();
        REQUIRE(end);
        CHECK(end->exited);
        CHECK(end->status == each.status);
        CHECK_THAT(engine.stderr_text(), Catch::Contains(each.text));
        for (const auto& line : engine.rest()) CHECK(line.starts_with("LOAD "));
    }
}

TEST_CASE("a start that fails says why though its input has ended") {
    struct Case {
        std::string model;
        std::vector<std::string> more;
        int status;
        std::string text;
    };
    const std::vector<Case> cases{
        {"refused,check_ms=600", {}, 3, "the model file is not one"},
        {"too_large,check_ms=600", {}, 4, "not enough memory to load too_large"},
        {"grows_too_large,load_ms=200", {}, 4, "not enough memory to load grows_too_large"},
        {"hybrid", {"--turn-token", "97"}, 2, "turn-token is 97"},
        {"hybrid", {"--kv", "f8"}, 2, "--kv is \"f8\""},
    };
    const std::string how = GENERATE(as<std::string>{}, "</dev/null", "<&-", "EOF", "QUIT", "TERM");
    for (const Case& each : cases) {
        INFO(each.model << " " << each.text << " " << how);
        const bool redirected = how.front() == '<';
        std::vector<std::string> arguments{"-c", "exec \"$0\" \"$@\" " + (redirected ? how : ""),
                                           kFakeModelProgram, "--model", each.model};
        arguments.insert(arguments.end(), each.more.begin(), each.more.end());
        PipedEngine engine("/bin/sh", arguments);
        if (how == "TERM" && claims_signals(engine.pid())) engine.signal(SIGTERM);
        if (how == "QUIT") engine.send("QUIT");
        if (how == "EOF") engine.close_stdin();
        const auto end = engine.wait();
        REQUIRE(end);
        CHECK(end->exited);
        CHECK(end->status == each.status);
        CHECK_THAT(engine.stderr_text(), Catch::Contains(each.text));
    }
}

TEST_CASE("a start without an input ends with 0 when nothing is wrong") {
    const std::string redirection = GENERATE(as<std::string>{}, "</dev/null", "<&-");
    const std::string model = GENERATE(as<std::string>{}, "hybrid", "hybrid,load_ms=60000");
    INFO(redirection << " " << model);
    constexpr std::int64_t kInTimeMs = 1500 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [&] {
              const auto began = Clock::now();
              PipedEngine engine("/bin/sh", {"-c", "exec \"$0\" \"$@\" " + redirection,
                                             kFakeModelProgram, "--model", model});
              const auto end = engine.wait();
              const auto took = ms_since(began);
              REQUIRE(end);
              CHECK(end->exited);
              CHECK(end->status == 0);
              CHECK(engine.stderr_text().empty());
              return took;
          }) < kInTimeMs);
}

TEST_CASE("help and version go to stdout and leave with 0") {
    for (const std::string option : {"--help", "--version"}) {
        PipedEngine engine(kFakeModelProgram, {option});
        const auto lines = engine.rest();
        REQUIRE_FALSE(lines.empty());
        CHECK(lines.front().starts_with("strata-engine"));
        CHECK(engine.wait()->status == 0);
    }
}

TEST_CASE(
    "an engine whose parent is killed is gone within two seconds though its input stays open") {
    const std::string state = GENERATE(as<std::string>{}, "idle", "stuck");
    constexpr std::int64_t kInTimeMs = 2000 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [&] { return orphan_ms(state); }) < kInTimeMs);
}

}  // namespace strata::tests
