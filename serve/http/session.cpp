// The story of a connection. Coroutines here are members or static functions with their own copies
// of what they need: GCC 12 miscompiles lambdas with captures that are coroutines.
#include "serve/http/session.hpp"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "serve/http/access.hpp"

namespace strata::serve {

namespace net = boost::asio;

namespace {

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

std::string hex_id(std::uint64_t value) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out(16, '0');
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[out.size() - 1 - i] = kHex[(value >> (4 * i)) & 15U];
    }
    return out;
}

}  // namespace

Session::Session(net::ip::tcp::socket socket, HttpPlaces& places)
    : places_(places),
      connection_(
          std::make_shared<Connection>(std::move(socket), places.settings.limits.still_there_time)),
      reader_(connection_, places.settings.limits),
      watch_ended_(connection_->executor()) {}

net::awaitable<void> Session::run(std::shared_ptr<Session> self) {
    bool keep = true;
    while (keep && !self->places_.stopping) {
        self->reading_head_ = true;
        const RequestReader::Outcome outcome = co_await self->reader_.read_head();
        self->reading_head_ = false;
        if (outcome == RequestReader::Outcome::closed) break;
        self->request_id_ = hex_id(self->places_.request_ids());
        if (outcome == RequestReader::Outcome::refused) {
            const ApiError error = self->reader_.error();
            keep = co_await self->refuse(error, false);
        } else {
            keep = co_await self->one_request();
        }
    }
    self->connection_->close();
}

void Session::finish_soon() {
    if (reading_head_ && reader_.idle()) connection_->cancel();
}

void Session::abort() {
    client_left_ = true;
    connection_->close();
}

std::shared_ptr<Outbox> Session::make_outbox(bool keep_alive) {
    ResponseFrame frame;
    frame.request_id = request_id_;
    frame.keep_alive = keep_alive && !places_.stopping;
    frame.http_1_0 = reader_.head().http_1_0;
    frame.head_only = reader_.head().method == Method::head;
    if (reader_.head().origin) {
        frame.cors_origin = cors_origin(places_.settings.access, *reader_.head().origin);
    }
    return std::make_shared<Outbox>(connection_->executor(), std::move(frame),
                                    places_.settings.limits.unsent_bytes_max,
                                    [connection = std::weak_ptr<Connection>(connection_)] {
                                        if (const auto held = connection.lock()) held->cancel();
                                    });
}

net::awaitable<bool> Session::refuse(const ApiError& error, bool keep_alive) {
    const std::shared_ptr<Outbox> outbox = make_outbox(keep_alive);
    outbox->refuse(error);
    const bool kept = co_await answer(outbox, nullptr);
    if (!kept) co_await connection_->linger(places_.settings.limits.linger_time);
    co_return kept;
}

HttpRequest Session::take_request(HeadVerdict verdict) {
    const RequestHead& head = reader_.head();
    HttpRequest request;
    request.method = head.method;
    request.match = std::move(verdict.match);
    request.target = std::move(verdict.target);
    request.accept = head.accept;
    request.if_none_match = head.if_none_match;
    request.accepts_gzip = head.accept_encoding.find("gzip") != std::string::npos;
    request.body = reader_.take_body();
    return request;
}

net::awaitable<bool> Session::one_request() {
    const RequestHead& head = reader_.head();
    HeadVerdict verdict = judge_head(head, places_.settings, places_.pages);
    if (verdict.refusal) {
        // After a head that is malformed nobody knows where the next request begins.
        const bool in_step = verdict.refusal->kind != ErrorKind::invalid_request;
        const bool kept =
            co_await refuse(*verdict.refusal, in_step && head.keep_alive && !head.has_body());
        co_return kept;
    }
    if (!head.expect.empty() && head.has_body() && !head.http_1_0) {
        const bool sent =
            co_await connection_->write_all(kContinue, places_.settings.limits.write_stall_time);
        if (!sent) co_return false;
    }
    const RequestReader::Outcome outcome = co_await reader_.read_body();
    if (outcome == RequestReader::Outcome::closed) co_return false;
    if (outcome == RequestReader::Outcome::refused) {
        const ApiError error = reader_.error();
        const bool kept = co_await refuse(error, false);
        co_return kept;
    }
    const std::shared_ptr<Outbox> outbox = make_outbox(head.keep_alive);
    std::shared_ptr<Exchange> exchange;
    if (head.method == Method::options) {
        const bool cors = head.origin && cors_origin(places_.settings.access, *head.origin);
        outbox->reply(options_reply(verdict.match, head, cors));
    } else {
        exchange = dispatch(places_.service, places_.pages, take_request(std::move(verdict)),
                            RequestFacts{request_id_}, outbox);
    }
    const bool kept = co_await answer(outbox, std::move(exchange));
    co_return kept;
}

net::awaitable<bool> Session::answer(std::shared_ptr<Outbox> outbox,
                                     std::shared_ptr<Exchange> exchange) {
    client_left_ = hears_nothing_ = asked_ = false;
    if (!outbox->ended()) {
        watching_ = true;
        net::co_spawn(connection_->executor(), watch(shared_from_this(), outbox), net::detached);
    }
    const bool whole = co_await write_answer(*outbox, exchange.get());
    if (!whole) {
        outbox->close();
        if (exchange) end_exchange(*exchange, *outbox);
    }
    co_await stop_watching();
    co_return whole && outbox->keep_alive() && !client_left_;
}

// Why the answer is not with the client: it left, or it is there and does not read.
void Session::end_exchange(Exchange& exchange, const Outbox& outbox) const {
    const HttpLimits& limits = places_.settings.limits;
    if (outbox.stuck()) {
        exchange.client_too_slow("more than " + std::to_string(limits.unsent_bytes_max) +
                                 " bytes of its answer were unread");
    } else if (connection_->expired()) {
        exchange.client_too_slow("it read nothing of its answer for " +
                                 std::to_string(limits.write_stall_time.count()) + " ms");
    } else {
        exchange.client_left();
    }
}

// False: the client is gone, or too slow.
net::awaitable<bool> Session::write_answer(Outbox& outbox, Exchange* exchange) {
    const HttpLimits& limits = places_.settings.limits;
    for (;;) {
        if (client_left_ || outbox.stuck()) co_return false;
        const std::string bytes = outbox.take();
        if (!bytes.empty()) {
            const bool sent = co_await connection_->write_all(bytes, limits.write_stall_time);
            if (!sent) co_return false;
            outbox.written();
            continue;
        }
        if (outbox.ended()) co_return true;
        const bool silent = co_await outbox.wait(silence_allowed());
        if (!silent) continue;
        const bool filled = co_await fill_silence(outbox, exchange);
        if (!filled) co_return false;
    }
}

std::chrono::milliseconds Session::silence_allowed() const {
    const HttpLimits& limits = places_.settings.limits;
    return hears_nothing_ && !asked_ ? limits.leave_check_time : limits.keep_alive_interval;
}

// False: the client is gone.
net::awaitable<bool> Session::fill_silence(Outbox& outbox, Exchange* exchange) {
    asked_ = hears_nothing_;
    if (outbox.ended()) co_return true;
    if (outbox.streaming()) {
        if (exchange != nullptr) outbox.events(exchange->keep_alive());
        co_return true;
    }
    // HTTP/1.0 has no interim responses; there the kernel's own question has to do.
    if (!hears_nothing_ || reader_.head().http_1_0) co_return true;
    const bool sent =
        co_await connection_->write_all(kContinue, places_.settings.limits.write_stall_time);
    co_return sent;
}

// Reads ahead while the answer is made, and then waits for a reset.
net::awaitable<void> Session::watch(std::shared_ptr<Session> self, std::shared_ptr<Outbox> outbox) {
    const std::shared_ptr<Connection> connection = self->connection_;
    const auto room = [&] { return connection->buffered().size() < kReadAheadBytesMax; };
    bool more = true;
    while (more && self->watching_ && room()) {
        const std::size_t count = co_await connection->read_more(kReadAheadBytesMax);
        more = count > 0;
    }
    if (self->watching_ && (more || connection->input_ended())) {
        self->hears_nothing_ = true;
        outbox->wake();
        co_await connection->gone();
    }
    if (self->watching_) {
        self->client_left_ = true;
        connection->cancel();  // a write that waits for this client
        outbox->wake();
    }
    self->watching_ = false;
    self->watch_ended_.cancel();
}

net::awaitable<void> Session::stop_watching() {
    if (!watching_) co_return;
    watching_ = false;
    watch_ended_.expires_at(net::steady_timer::time_point::max());
    connection_->cancel();
    const auto [code] = co_await watch_ended_.async_wait(net::as_tuple(net::use_awaitable));
    static_cast<void>(code);
}

}  // namespace strata::serve
