#include "tools/bench/load/clients.hpp"

#include <array>
#include <optional>
#include <thread>

#include <sys/epoll.h>
#include <unistd.h>

#include "tools/bench/load/server_side.hpp"

namespace strata::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEventsMax = 1024;
constexpr int kTurnMs = 20;
constexpr std::chrono::seconds kSilenceMax{30};      // then the streams count as stuck
constexpr std::chrono::milliseconds kTrickle{1000};  // between two bytes of a slow head
constexpr std::size_t kOpenedAtOnce = 200;           // a fifth of the server's backlog
constexpr std::chrono::seconds kAcceptPatience{10};
constexpr int kShortAnswerTokens = 5;
constexpr double kNsPerMs = 1e6;

std::string request_of(std::size_t seed, std::size_t tokens) {
    const std::string body = R"({"messages":[{"role":"user","content":"hi"}],"stream":true,)"
                             R"("seed":)" +
                             std::to_string(seed) + R"(,"max_tokens":)" + std::to_string(tokens) +
                             "}";
    return "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
           "Content-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

// The next whole frame of a stream, its chunk framing passed over.
std::optional<std::string> next_frame(std::string& received) {
    const std::size_t begin = received.find("data: ");
    if (begin == std::string::npos) return std::nullopt;
    const std::size_t end = received.find("\n\n", begin);
    if (end == std::string::npos) return std::nullopt;
    std::string frame = received.substr(begin + 6, end - begin - 6);
    received.erase(0, end + 2);
    return frame;
}

// The text of a chunk; "" for the first and the last ones.
std::string content_of(const std::string& frame) {
    constexpr std::string_view kKey = R"("delta":{"content":")";
    const std::size_t at = frame.find(kKey);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + kKey.size();
    return frame.substr(begin, frame.find('"', begin) - begin);
}

struct StreamCheck {
    const StreamPlan& plan;
    const std::vector<std::string>& words;
    const SaidTimes& said;
    StreamFigures& figures;

    void take(Connection& client, const std::string& frame, std::int64_t now_ns) {
        if (frame == "[DONE]") {
            client.ended = true;
            if (client.chunks != plan.tokens) ++figures.faults;
            return;
        }
        const std::string content = content_of(frame);
        if (content.empty()) return;
        const std::size_t at = client.chunks++;
        const std::size_t word = LanesEngine::word_of(client.number, at, words.size());
        ++figures.chunks;
        if (at >= plan.tokens || content != words[word]) {
            ++figures.faults;
            return;
        }
        const std::int64_t said_ns = said.at(client.number, at);
        if (at < plan.skip) return;
        figures.latencies_ms.push_back(static_cast<double>(now_ns - said_ns) / kNsPerMs);
    }
};

}  // namespace

Clients::Clients(std::uint16_t port) : port_(port), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Clients::~Clients() {
    connections_.clear();
    ::close(epoll_);
}

Connection& Clients::open(ClientKind kind) {
    connections_.push_back(std::make_unique<Connection>(port_, epoll_));
    connections_.back()->kind = kind;
    return *connections_.back();
}

std::vector<Connection*> Clients::readable(int wait_ms) {
    std::array<epoll_event, kEventsMax> events{};
    const int count = ::epoll_wait(epoll_, events.data(), kEventsMax, wait_ms);
    std::vector<Connection*> out;
    for (int i = 0; i < count; ++i) {
        auto* const connection =
            static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
        if (!connection->receive()) {
            connection->close();
            connection->ended = true;
        }
        out.push_back(connection);
    }
    return out;
}

StreamFigures Clients::run_streams(const StreamPlan& plan, const std::vector<std::string>& words,
                                   const SaidTimes& said, int server_pid) {
    StreamFigures figures;
    figures.latencies_ms.reserve(plan.streams * plan.tokens);
    connections_.clear();
    StreamCheck check{plan, words, said, figures};
    for (std::size_t i = 0; i < plan.streams; ++i) {
        Connection& client = open(ClientKind::stream);
        client.number = i;
        if (!client.open() || !client.send(request_of(i, plan.tokens))) ++figures.faults;
    }
    std::size_t running = plan.streams;
    auto last_sign = Clock::now();
    auto next_look = last_sign;
    while (running > 0 && Clock::now() - last_sign < kSilenceMax) {
        for (Connection* client : readable(kTurnMs)) {
            const std::int64_t now_ns = steady_ns();
            last_sign = Clock::now();
            const bool cut = client->ended;
            client->ended = false;
            while (const auto frame = next_frame(client->received)) {
                check.take(*client, *frame, now_ns);
            }
            if (cut && !client->ended) ++figures.faults;
            if (cut || client->ended) --running;
            if (client->ended) client->close();
        }
        if (Clock::now() < next_look) continue;
        next_look = Clock::now() + std::chrono::seconds(1);
        figures.resident_kib.push_back(resident_kib(server_pid));
    }
    figures.faults += running;
    return figures;
}

void Clients::ask(Connection& client) {
    client.received.clear();
    client.first_byte = false;
    client.asked_ns = 0;
    if (!client.send(request_of(static_cast<std::size_t>(-1), kShortAnswerTokens))) return;
    client.asked_ns = steady_ns();
}

// One byte more of each slow head; those that the server has closed are opened anew.
void Clients::trickle(FirstByteFigures& figures) {
    static const std::string kHead =
        "GET /health HTTP/1.1\r\nHost: localhost\r\nx-slow: " + std::string(4096, 'v');
    for (std::unique_ptr<Connection>& each : connections_) {
        if (each->kind != ClientKind::slow_headers) continue;
        if (!each->open()) {
            each = std::make_unique<Connection>(port_, epoll_);
            each->kind = ClientKind::slow_headers;
            ++figures.slow_opened;
        }
        each->send(std::string_view(kHead).substr(each->trickled++ % kHead.size(), 1));
    }
}

void Clients::open_many(ClientKind kind, std::size_t count, int server_pid) {
    for (std::size_t i = 1; i <= count; ++i) {
        open(kind);
        if (i % kOpenedAtOnce != 0 && i != count) continue;
        const auto until = Clock::now() + kAcceptPatience;
        while (descriptors_of(server_pid) < connections_.size() && Clock::now() < until) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    }
}

FirstByteFigures Clients::run_beside_slow(const SlowPlan& plan, int server_pid) {
    FirstByteFigures figures;
    connections_.clear();
    open_many(ClientKind::idle, plan.idle, server_pid);
    open_many(ClientKind::slow_headers, plan.slow, server_pid);
    figures.slow_opened = plan.slow;
    open_many(ClientKind::normal, plan.normal, server_pid);
    for (const auto& each : connections_) {
        if (each->kind == ClientKind::normal) ask(*each);
    }
    const auto until = Clock::now() + plan.time;
    auto next_trickle = Clock::now();
    while (Clock::now() < until) {
        if (Clock::now() >= next_trickle) {
            next_trickle += kTrickle;
            trickle(figures);
        }
        for (Connection* client : readable(kTurnMs)) {
            if (client->kind != ClientKind::normal) continue;
            if (!client->first_byte && client->asked_ns > 0) {
                client->first_byte = true;
                const auto ns = static_cast<double>(steady_ns() - client->asked_ns);
                figures.first_byte_ms.push_back(ns / kNsPerMs);
                if (!client->received.starts_with("HTTP/1.1 200")) ++figures.faults;
            }
            if (client->ended) ++figures.faults;
            if (client->ended || client->received.find("\r\n0\r\n\r\n") == std::string::npos) {
                continue;
            }
            ++figures.requests;
            ask(*client);
        }
    }
    return figures;
}

}  // namespace strata::bench
