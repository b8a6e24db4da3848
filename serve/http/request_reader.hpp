// Reads one request from a connection: head within its limits and time, body within its size and
// rate. The strict parser (RFC 9112) is behind this interface.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "serve/api/api_error.hpp"
#include "serve/http/connection.hpp"
#include "serve/http/request_head.hpp"
#include "serve/http/settings.hpp"

namespace strata::serve {

class RequestReader {
  public:
    RequestReader(std::shared_ptr<Connection> connection, const HttpLimits& limits);
    ~RequestReader();
    RequestReader(const RequestReader&) = delete;
    RequestReader& operator=(const RequestReader&) = delete;

    enum class Outcome : std::uint8_t {
        closed,   // no request came: nothing is to be said
        refused,  // error() is to be said, then the connection ends
        ready,
    };
    // The next head. `ready`: head() is it.
    boost::asio::awaitable<Outcome> read_head();
    // Its body into body().
    boost::asio::awaitable<Outcome> read_body();

    const RequestHead& head() const { return head_; }
    const ApiError& error() const { return error_; }
    std::string take_body();
    bool idle() const { return idle_; }  // no byte of a request is here

  private:
    struct Parser;

    Outcome parse_head(std::size_t bytes);
    Outcome feed_body(bool& need_more);
    Outcome refuse(ApiError error);
    void skip_empty_lines();

    std::shared_ptr<Connection> connection_;
    HttpLimits limits_;
    std::unique_ptr<Parser> parser_;
    RequestHead head_;
    ApiError error_;
    bool idle_ = true;
};

}  // namespace strata::serve
