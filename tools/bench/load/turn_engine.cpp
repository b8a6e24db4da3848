// One thread: commands are looked at between any two tokens.
#include "tools/bench/load/turn_engine.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <variant>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol/command.hpp"
#include "protocol/event.hpp"
#include "protocol/line_reader.hpp"

namespace strata::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kContextTokens = 32'768;
constexpr double kNsPerSecond = 1e9;
constexpr std::chrono::seconds kIdleLook{1};

class TurnEngine {
  public:
    TurnEngine(const TurnPlan& plan, const Words& words, SaidTimes said)
        : plan_(plan), words_(words), said_(said) {}

    void run() {
        protocol::InfoLine info;
        info.protocol = protocol::kProtocolVersion;
        info.context_tokens = kContextTokens;
        info.vocab = static_cast<std::int64_t>(words_.ids.size());
        put(info);
        protocol::ReadyLine ready;
        ready.max_context = kContextTokens;
        ready.can.stop = ready.can.id = ready.can.ping = true;
        put(ready);
        while (!ended_) {
            if (waiting_.empty()) {
                listen(kIdleLook);
                continue;
            }
            const protocol::GenCommand command = std::move(waiting_.front());
            waiting_.pop_front();
            answer(command);
        }
    }

  private:
    void put(const protocol::Event& event) {
        const std::string line = protocol::format(event) + "\n";
        for (std::size_t at = 0; at < line.size() && !ended_;) {
            const ssize_t count = ::write(STDOUT_FILENO, line.data() + at, line.size() - at);
            if (count > 0) at += static_cast<std::size_t>(count);
            if (count < 0 && errno != EINTR) ended_ = true;
        }
    }

    // Takes the commands that are there, or come within `wait`.
    void listen(std::chrono::nanoseconds wait) {
        constexpr std::int64_t kNsPerS = 1'000'000'000;
        const std::int64_t ns = std::max<std::int64_t>(wait.count(), 0);
        const timespec time{ns / kNsPerS, ns % kNsPerS};
        pollfd ready{STDIN_FILENO, POLLIN, 0};
        if (::ppoll(&ready, 1, &time, nullptr) <= 0) return;
        std::array<char, 65536> bytes{};
        const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count <= 0) {
            ended_ = true;
            return;
        }
        lines_.feed({bytes.data(), static_cast<std::size_t>(count)},
                    [this](const protocol::RawLine& line) { take(line.text); });
    }

    void take(std::string_view line) {
        auto command = protocol::parse_command(line);
        if (!command) return;
        if (auto* const gen = std::get_if<protocol::GenCommand>(&*command)) {
            waiting_.push_back(std::move(*gen));
        } else if (const auto* const ping = std::get_if<protocol::PingCommand>(&*command)) {
            put(protocol::PongLine{ping->n});
        } else if (const auto* const stop = std::get_if<protocol::StopCommand>(&*command)) {
            stopped_ = stop->id.value_or(0);
        } else if (std::holds_alternative<protocol::QuitCommand>(*command)) {
            ended_ = true;
        }
    }

    void say(const protocol::GenCommand& command, std::size_t token) {
        protocol::TokenLine line;
        line.id = command.id;
        line.token = words_.ids[LanesEngine::word_of(command.seed, token, words_.ids.size())];
        const bool timed = command.seed < said_.streams && token < said_.tokens;
        if (timed) said_.at(command.seed, token) = steady_ns();
        put(line);
    }

    void answer(const protocol::GenCommand& command) {
        protocol::ResumeLine resume;
        resume.id = command.id;
        put(resume);
        protocol::DoneLine done;
        done.id = command.id;
        done.finish = protocol::Finish::length;
        done.prompt_tokens = done.prompt_read = static_cast<std::int64_t>(command.ids.size());
        const auto start = Clock::now();
        for (; done.generated < command.max_new && !ended_; ++done.generated) {
            const auto due = start + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                         static_cast<double>(done.generated + 1) * kNsPerSecond /
                                         plan_.tokens_per_second));
            do {
                listen(due - Clock::now());
            } while (Clock::now() < due && !ended_);
            if (stopped_ == command.id) {
                done.finish = protocol::Finish::cancel;
                break;
            }
            say(command, static_cast<std::size_t>(done.generated));
        }
        done.decode_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
        put(done);
    }

    const TurnPlan& plan_;
    const Words& words_;
    SaidTimes said_;
    protocol::LineReader lines_{protocol::kCommandLineBytesMax};
    std::deque<protocol::GenCommand> waiting_;
    std::uint64_t stopped_ = 0;
    bool ended_ = false;
};

}  // namespace

SaidTimes map_times(const TurnPlan& plan) {
    SaidTimes said;
    said.streams = plan.streams;
    said.tokens = plan.tokens;
    const int file = ::open(plan.times_path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return said;
    void* const memory = ::mmap(nullptr, plan.streams * plan.tokens * sizeof(std::int64_t),
                                PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (memory != MAP_FAILED) said.rows = static_cast<std::int64_t*>(memory);
    return said;
}

int run_turn_engine(const TurnPlan& plan, const Words& words) {
    const SaidTimes said = map_times(plan);
    if (said.rows == nullptr || plan.tokens_per_second <= 0) return 2;
    TurnEngine(plan, words, said).run();
    return 0;
}

}  // namespace strata::bench
