// Bytes of responses, and the outbox that holds them.
#include "serve/http/response_text.hpp"

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>

#include "serve/http/outbox.hpp"

using namespace strata::serve;

namespace {

ResponseFrame frame() {
    ResponseFrame frame;
    frame.request_id = "abc";
    return frame;
}

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

struct Box {
    boost::asio::io_context io;
    int stuck_calls = 0;
    Outbox outbox;
    explicit Box(std::size_t limit, ResponseFrame with = frame())
        : outbox(io.get_executor(), std::move(with), limit, [this] { ++stuck_calls; }) {}
};

}  // namespace

TEST_CASE("a response has its length and its request id") {
    Reply reply;
    reply.body = "{}";
    const std::string bytes = response_bytes(reply, frame());
    CHECK(bytes.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(count(bytes, "content-length: 2\r\n") == 1);
    CHECK(count(bytes, "\r\nx-request-id: abc\r\n") == 1);
    CHECK(count(bytes, "\r\nrequest-id: abc\r\n") == 1);
    CHECK(count(bytes, "connection:") == 0);
    CHECK(count(bytes, "access-control") == 0);
    CHECK(bytes.ends_with("\r\n\r\n{}"));
}

TEST_CASE("HEAD says the length and sends no body") {
    Reply reply;
    reply.body = "0123456789";
    ResponseFrame head = frame();
    head.head_only = true;
    const std::string bytes = response_bytes(reply, head);
    CHECK(count(bytes, "content-length: 10\r\n") == 1);
    CHECK(bytes.ends_with("\r\n\r\n"));
}

TEST_CASE("errors carry their status and what goes with it") {
    ApiError error;
    error.kind = ErrorKind::rate_limited;
    error.message = "full";
    error.code = "queue_full";
    error.retry_after = std::chrono::seconds(5);
    const Reply reply = error_reply(error);
    CHECK(reply.status == 429);
    CHECK(
        reply.body ==
        R"({"error":{"message":"full","type":"rate_limit_error","param":null,"code":"queue_full"}})");
    CHECK(count(response_bytes(reply, frame()), "retry-after: 5\r\n") == 1);
    error.kind = ErrorKind::authentication;
    CHECK(error_reply(error).status == 401);
    error.kind = ErrorKind::method_not_allowed;
    error.allow = "GET";
    CHECK(count(response_bytes(error_reply(error), frame()), "allow: GET\r\n") == 1);
}

TEST_CASE("a stream is chunked and ends with the last chunk") {
    Box box(1000);
    box.outbox.begin_events();
    const std::string head = box.outbox.take();
    CHECK(count(head, "content-type: text/event-stream; charset=utf-8\r\n") == 1);
    CHECK(count(head, "transfer-encoding: chunked\r\n") == 1);
    CHECK(count(head, "cache-control: no-cache\r\n") == 1);
    CHECK(count(head, "x-accel-buffering: no\r\n") == 1);
    box.outbox.events("data: 0123456789\n\n");
    CHECK(box.outbox.take() == "12\r\ndata: 0123456789\n\n\r\n");
    box.outbox.end_events();
    CHECK(box.outbox.take() == "0\r\n\r\n");
    CHECK(box.outbox.ended());
    CHECK(box.outbox.keep_alive());
}

TEST_CASE("a stream to an old client ends with the connection") {
    ResponseFrame old = frame();
    old.http_1_0 = true;
    Box box(1000, old);
    box.outbox.begin_events();
    const std::string head = box.outbox.take();
    CHECK(head.starts_with("HTTP/1.0 200"));
    CHECK(count(head, "transfer-encoding") == 0);
    CHECK(count(head, "connection: close\r\n") == 1);
    box.outbox.events("data: x\n\n");
    CHECK(box.outbox.take() == "data: x\n\n");
    box.outbox.end_events();
    CHECK(box.outbox.take().empty());
    CHECK_FALSE(box.outbox.keep_alive());
}

TEST_CASE("unsent bytes one over the limit make the outbox stuck") {
    Box probe(1'000'000);
    probe.outbox.begin_events();
    probe.outbox.take();
    probe.outbox.written();
    probe.outbox.events(std::string(500, 'x'));
    const std::size_t framed = probe.outbox.take().size();

    for (const std::size_t limit : {framed + 1, framed, framed - 1}) {
        INFO(limit);
        Box box(limit);
        box.outbox.begin_events();
        box.outbox.take();
        box.outbox.written();
        box.outbox.events(std::string(500, 'x'));
        CHECK(box.outbox.stuck() == (limit < framed));
        CHECK(box.stuck_calls == (limit < framed ? 1 : 0));
    }
}

TEST_CASE("bytes that are being written count as unsent until they are written") {
    Box box(1500);
    box.outbox.begin_events();
    box.outbox.take();
    box.outbox.written();
    box.outbox.events(std::string(800, 'x'));
    CHECK(box.outbox.take().size() > 800);
    box.outbox.events(std::string(800, 'x'));
    CHECK(box.outbox.stuck());

    Box quick(1500);
    quick.outbox.begin_events();
    quick.outbox.take();
    quick.outbox.written();
    quick.outbox.events(std::string(800, 'x'));
    quick.outbox.take();
    quick.outbox.written();
    quick.outbox.events(std::string(800, 'x'));
    CHECK_FALSE(quick.outbox.stuck());
}

TEST_CASE("nothing goes out after the client left or after the end") {
    Box box(1000);
    box.outbox.reply(Reply{});
    CHECK_FALSE(box.outbox.take().empty());
    box.outbox.reply(Reply{});
    box.outbox.begin_events();
    CHECK(box.outbox.take().empty());

    Box left(1000);
    left.outbox.begin_events();
    left.outbox.take();
    left.outbox.close();
    left.outbox.events("data: x\n\n");
    left.outbox.end_events();
    CHECK(left.outbox.take().empty());
}
