// One connection's requests, one after the other: read, judge, dispatch, write, until either side
// has enough. While an answer is being made a read stays outstanding, so that a client who leaves
// is noticed at once and its work ends.
//
// A client that closed and one that only shut down its sending half look alike until something is
// sent: the machine of the first answers with a reset. So a client that sends nothing more is asked
// by the smallest thing its answer has room for: in a stream a keep-alive, before a document the
// interim response 100 (HTTP/1.1). See DETAILS.md, "A client that leaves".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/api/service.hpp"
#include "serve/http/connection.hpp"
#include "serve/http/dispatch.hpp"
#include "serve/http/outbox.hpp"
#include "serve/http/page_files.hpp"
#include "serve/http/request_reader.hpp"
#include "serve/http/settings.hpp"

namespace strata::serve {

// What all sessions share; outlives them.
struct HttpPlaces {
    Service& service;
    PageFiles* pages;  // nullptr: none
    const HttpSettings& settings;
    std::mt19937_64 request_ids;
    bool stopping = false;  // no further request is begun
};

class Session : public std::enable_shared_from_this<Session> {
  public:
    Session(boost::asio::ip::tcp::socket socket, HttpPlaces& places);

    // Runs to the connection's end; holds the session meanwhile.
    static boost::asio::awaitable<void> run(std::shared_ptr<Session> self);
    // Server shutdown: an idle connection ends now, a busy one after its answer.
    void finish_soon();
    // Ends it now.
    void abort();

  private:
    boost::asio::awaitable<bool> one_request();
    boost::asio::awaitable<bool> refuse(const ApiError& error, bool keep_alive);
    boost::asio::awaitable<bool> answer(std::shared_ptr<Outbox> outbox,
                                        std::shared_ptr<Exchange> exchange);
    void end_exchange(Exchange& exchange, const Outbox& outbox) const;
    boost::asio::awaitable<bool> write_answer(Outbox& outbox, Exchange* exchange);
    std::chrono::milliseconds silence_allowed() const;
    boost::asio::awaitable<bool> fill_silence(Outbox& outbox, Exchange* exchange);
    static boost::asio::awaitable<void> watch(std::shared_ptr<Session> self,
                                              std::shared_ptr<Outbox> outbox);
    boost::asio::awaitable<void> stop_watching();
    std::shared_ptr<Outbox> make_outbox(bool keep_alive);
    HttpRequest take_request(HeadVerdict verdict);

    HttpPlaces& places_;
    std::shared_ptr<Connection> connection_;
    RequestReader reader_;
    std::string request_id_;
    bool reading_head_ = false;
    bool watching_ = false;       // the watcher's read or its wait for a reset is outstanding
    bool hears_nothing_ = false;  // no read would tell that the client left
    bool asked_ = false;          // since then it was asked whether it still waits
    bool client_left_ = false;
    boost::asio::steady_timer watch_ended_;
};

}  // namespace strata::serve
