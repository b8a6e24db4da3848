// Binding, accepting, and the count of connections.
#include "serve/http/server.hpp"

#include <random>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace strata::serve {

namespace net = boost::asio;
using tcp = net::ip::tcp;

namespace {

constexpr int kBacklog =
    1024;  // connections that wait to be accepted; the kernel's own cap is 4096
constexpr std::chrono::milliseconds kAcceptPause{100};  // when no descriptor is free

}  // namespace

HttpServer::HttpServer(net::io_context& io, HttpSettings settings, Service& service,
                       PageFiles* pages)
    : io_(io),
      settings_(std::move(settings)),
      places_{service, pages, settings_, std::mt19937_64(std::random_device{}()), false} {}

Status<> HttpServer::bind_one(const tcp::endpoint& endpoint) {
    boost::system::error_code code;
    tcp::acceptor acceptor(io_);
    acceptor.open(endpoint.protocol(), code);
    if (!code) acceptor.set_option(net::socket_base::reuse_address(true), code);
    if (!code && endpoint.address().is_v6()) acceptor.set_option(net::ip::v6_only(true), code);
    if (!code) acceptor.bind(endpoint, code);
    if (!code) acceptor.listen(kBacklog, code);
    if (code) {
        const std::string where =
            endpoint.address().to_string() + " port " + std::to_string(endpoint.port());
        if (code == net::error::address_in_use) {
            return refuse(where + " is taken by another program; choose another with --port N (" +
                          "`ss -ltnp 'sport = :" + std::to_string(endpoint.port()) +
                          "'` shows which)");
        }
        return refuse("cannot listen on " + where + ": " + code.message());
    }
    port_ = acceptor.local_endpoint().port();
    acceptors_.push_back(std::move(acceptor));
    return Done{};
}

Status<> HttpServer::listen() {
    boost::system::error_code code;
    const std::string host = settings_.host == "localhost" ? "127.0.0.1" : settings_.host;
    const net::ip::address address = net::ip::make_address(host, code);
    if (code) {
        return refuse("--host is \"" + settings_.host +
                      "\"; allowed: an IP address of this machine, localhost, 0.0.0.0 or ::");
    }
    const Status<> bound = bind_one({address, settings_.port});
    if (!bound) return bound;
    // `localhost` is ::1 first for many clients. A machine without IPv6 does without.
    if (address == net::ip::address_v4::loopback()) {
        static_cast<void>(bind_one({net::ip::address_v6::loopback(), port_}));
    }
    for (std::size_t i = 0; i < acceptors_.size(); ++i) {
        net::co_spawn(io_, accept_loop(i), net::detached);
    }
    return Done{};
}

net::awaitable<void> HttpServer::accept_loop(std::size_t index) {
    net::steady_timer pause(io_);
    for (;;) {
        auto [code, socket] =
            co_await acceptors_[index].async_accept(net::as_tuple(net::use_awaitable));
        if (places_.stopping || code == net::error::operation_aborted) co_return;
        if (code) {
            pause.expires_after(kAcceptPause);
            const auto [ignored] = co_await pause.async_wait(net::as_tuple(net::use_awaitable));
            static_cast<void>(ignored);
            continue;
        }
        begin(std::move(socket));
    }
}

void HttpServer::begin(tcp::socket socket) {
    if (sessions_.size() >= settings_.limits.connections_max) return;  // closes it
    auto session = std::make_shared<Session>(std::move(socket), places_);
    sessions_.insert(session);
    net::co_spawn(io_, Session::run(session),
                  [this, session](std::exception_ptr) { sessions_.erase(session); });
}

void HttpServer::stop_accepting() {
    places_.stopping = true;
    for (tcp::acceptor& acceptor : acceptors_) {
        boost::system::error_code ignored;
        acceptor.close(ignored);
    }
    for (const std::shared_ptr<Session>& session : sessions_) session->finish_soon();
}

void HttpServer::abort_all() {
    for (const std::shared_ptr<Session>& session : sessions_) session->abort();
}

}  // namespace strata::serve
