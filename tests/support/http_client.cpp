#include "tests/support/http_client.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strata::tests {

namespace {

using Clock = std::chrono::steady_clock;

int left_ms(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<Wait>(deadline - Clock::now()).count();
    return static_cast<int>(std::max<long long>(left, 0));
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient(std::uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
}

HttpClient::~HttpClient() {
    close();
}

void HttpClient::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

void HttpClient::half_close() {
    ::shutdown(fd_, SHUT_WR);
}

void HttpClient::forgotten_after(int seconds) {
    ::setsockopt(fd_, IPPROTO_TCP, TCP_LINGER2, &seconds, sizeof seconds);
}

void HttpClient::reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
}

void HttpClient::small_receive_buffer(int bytes) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

bool HttpClient::send(std::string_view bytes, Wait wait) {
    const Deadline deadline = Clock::now() + wait;
    while (!bytes.empty()) {
        pollfd ready{fd_, POLLOUT, 0};
        if (::poll(&ready, 1, left_ms(deadline)) <= 0) return false;
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

bool HttpClient::read_more(Deadline deadline) {
    pollfd ready{fd_, POLLIN, 0};
    if (fd_ < 0 || ::poll(&ready, 1, left_ms(deadline)) <= 0) return false;
    std::array<char, 65536> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (count <= 0) {
        peer_closed_ = true;
        return false;
    }
    bytes_.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
}

std::optional<std::string> HttpClient::line(Deadline deadline) {
    for (;;) {
        const std::size_t end = bytes_.find("\r\n");
        if (end != std::string::npos) {
            std::string text = bytes_.substr(0, end);
            bytes_.erase(0, end + 2);
            return text;
        }
        if (!read_more(deadline)) return std::nullopt;
    }
}

std::optional<HttpResponse> HttpClient::head(Wait wait) {
    const Deadline deadline = Clock::now() + wait;
    const std::optional<std::string> first = line(deadline);
    if (!first || first->size() < 12) return std::nullopt;
    HttpResponse response;
    response.status = std::atoi(first->c_str() + 9);
    for (;;) {
        const std::optional<std::string> text = line(deadline);
        if (!text) return std::nullopt;
        if (text->empty()) break;
        const std::size_t colon = text->find(": ");
        if (colon == std::string::npos) return std::nullopt;
        response.headers.emplace(lower(text->substr(0, colon)), text->substr(colon + 2));
    }
    body_ended_ = false;
    events_.clear();
    return response;
}

bool HttpClient::chunk(Deadline deadline) {
    const std::optional<std::string> size_line = line(deadline);
    if (!size_line) return false;
    const std::size_t size = std::strtoul(size_line->c_str(), nullptr, 16);
    while (bytes_.size() < size + 2) {
        if (!read_more(deadline)) return false;
    }
    events_.append(bytes_, 0, size);
    bytes_.erase(0, size + 2);
    if (size == 0) body_ended_ = true;
    return size > 0;
}

std::optional<std::string> HttpClient::event(Wait wait) {
    const Deadline deadline = Clock::now() + wait;
    for (;;) {
        const std::size_t end = events_.find("\n\n");
        if (end != std::string::npos) {
            std::string frame = events_.substr(0, end);
            events_.erase(0, end + 2);
            return frame;
        }
        if (!chunk(deadline)) return std::nullopt;
    }
}

std::optional<HttpResponse> HttpClient::response(Wait wait, bool to_head) {
    const Deadline deadline = Clock::now() + wait;
    std::optional<HttpResponse> response = head(wait);
    if (!response || to_head || response->status == 204 || response->status == 304 ||
        response->status == 100) {
        return response;
    }
    if (response->header("transfer-encoding") == "chunked") {
        while (chunk(deadline)) {
        }
        if (!body_ended_) return std::nullopt;
        response->body = std::move(events_);
        events_.clear();
        return response;
    }
    const std::size_t size = std::strtoul(response->header("content-length").c_str(), nullptr, 10);
    while (bytes_.size() < size) {
        if (!read_more(deadline)) return std::nullopt;
    }
    response->body = bytes_.substr(0, size);
    bytes_.erase(0, size);
    return response;
}

bool HttpClient::closed_within(Wait wait) {
    const Deadline deadline = Clock::now() + wait;
    while (read_more(deadline)) bytes_.clear();
    return peer_closed_;
}

std::string post_request(std::string_view path, std::string_view body, std::string_view extra) {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n" + std::string(extra) + "\r\n" + std::string(body);
}

std::string get_request(std::string_view path, std::string_view extra) {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(extra) +
           "\r\n";
}

std::optional<HttpResponse> get(std::uint16_t port, std::string_view path, Wait wait) {
    HttpClient client(port);
    if (!client.connected() || !client.send(get_request(path))) return std::nullopt;
    return client.response(wait);
}

std::optional<HttpResponse> post(std::uint16_t port, std::string_view path, std::string_view body,
                                 Wait wait) {
    HttpClient client(port);
    if (!client.connected() || !client.send(post_request(path, body))) return std::nullopt;
    return client.response(wait);
}

}  // namespace strata::tests
