#include "tools/bench/load/server_side.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <boost/asio/io_context.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "serve/http/server.hpp"

namespace strata::bench {

namespace {

constexpr std::size_t kConnectionsMax = 10'000;
constexpr std::size_t kQueueMax = 4096;  // nothing waits here: the engine takes all
constexpr std::size_t kWordLettersMin = 2;

bool letters_alone(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
}

[[noreturn]] void serve_forever(const serve::TextModel& text, const Words& words, SaidTimes said,
                                std::chrono::microseconds between_tokens, int tell_port) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::memset(said.rows, 0, said.streams * said.tokens * sizeof(std::int64_t));
    boost::asio::io_context io(1);
    LanesEngine engine(io, words.ids, said, between_tokens);
    serve::ApiSettings api;
    api.model_name = "demo";
    api.queue_max = kQueueMax;
    serve::Service service(io.get_executor(), engine, text, api, {});
    serve::HttpSettings http;
    http.port = 0;
    http.limits.connections_max = kConnectionsMax;
    serve::HttpServer server(io, http, service, nullptr);
    const auto listening = server.listen();
    const std::uint16_t port = listening ? server.port() : 0;
    if (!listening) std::fprintf(stderr, "%s\n", listening.error().text.c_str());
    if (::write(tell_port, &port, sizeof port) != sizeof port || port == 0) ::_exit(1);
    io.run();
    ::_exit(0);
}

}  // namespace

Words words_of(const serve::TextModel& text) {
    Words words;
    for (std::size_t id = 0; id < text.tokenizer().size(); ++id) {
        const auto token = static_cast<std::int32_t>(id);
        const std::string_view bytes = text.tokenizer().bytes(token);
        if (bytes.size() < kWordLettersMin || !letters_alone(bytes)) continue;
        if (text.tokenizer().kind(token) != serve::TokenKind::normal) continue;
        words.ids.push_back(token);
        words.texts.emplace_back(bytes);
    }
    return words;
}

ServerUnderLoad start_server(const serve::TextModel& text, const Words& words, SaidTimes said,
                             std::chrono::microseconds between_tokens) {
    ServerUnderLoad server;
    int ends[2];
    if (::pipe(ends) != 0) return server;
    server.pid = ::fork();
    if (server.pid == 0) serve_forever(text, words, said, between_tokens, ends[1]);
    ::close(ends[1]);
    if (::read(ends[0], &server.port, sizeof server.port) != sizeof server.port) server.port = 0;
    ::close(ends[0]);
    return server;
}

std::size_t descriptors_of(pid_t pid) {
    std::error_code gone;
    const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd", gone);
    return gone ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

long resident_kib(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
    }
    return 0;
}

}  // namespace strata::bench
