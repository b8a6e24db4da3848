// The listening sockets and the set of open sessions. Everything runs on the io_context's one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "serve/api/service.hpp"
#include "serve/http/page_files.hpp"
#include "serve/http/session.hpp"
#include "serve/http/settings.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

class HttpServer {
  public:
    // All references outlive the server; the server outlives the last run of `io`.
    HttpServer(boost::asio::io_context& io, HttpSettings settings, Service& service,
               PageFiles* pages);

    // Binds and begins to accept. A refusal names the address, why, and what to do.
    Status<> listen();
    std::uint16_t port() const { return port_; }

    // No new connection, no new request; idle connections end.
    void stop_accepting();
    void abort_all();
    std::size_t open_connections() const { return sessions_.size(); }

  private:
    Status<> bind_one(const boost::asio::ip::tcp::endpoint& endpoint);
    boost::asio::awaitable<void> accept_loop(std::size_t index);
    void begin(boost::asio::ip::tcp::socket socket);

    boost::asio::io_context& io_;
    HttpSettings settings_;
    HttpPlaces places_;
    std::vector<boost::asio::ip::tcp::acceptor> acceptors_;
    std::set<std::shared_ptr<Session>> sessions_;
    std::uint16_t port_ = 0;
};

}  // namespace strata::serve
