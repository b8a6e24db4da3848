// A small HTTP/1.1 client on a raw socket, for tests: it sends exactly the bytes it is given, may
// send half of them, may read slowly or leave, and every wait has an end.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace strata::tests {

using Wait = std::chrono::milliseconds;
inline constexpr Wait kPatience{30'000};  // for what must come, on a loaded machine, too

struct HttpResponse {
    int status = 0;
    std::multimap<std::string, std::string> headers;  // names in lower case
    std::string body;
    std::string header(const std::string& name) const;  // "" = absent
};

class HttpClient {
  public:
    explicit HttpClient(std::uint16_t port);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    bool connected() const { return fd_ >= 0; }
    // All bytes, or false after `wait`.
    bool send(std::string_view bytes, Wait wait = kPatience);
    // A whole response; none when it did not come in time or the connection ended before.
    std::optional<HttpResponse> response(Wait wait = kPatience, bool to_head = false);
    // The head of a response; its body is read by event().
    std::optional<HttpResponse> head(Wait wait = kPatience);
    // The next server-sent frame without its empty line; none at the end of the body or after
    // `wait`.
    std::optional<std::string> event(Wait wait = kPatience);
    // The last event() came to the body's orderly end.
    bool body_ended() const { return body_ended_; }
    // The server ended the connection (what it still sends is read and dropped).
    bool closed_within(Wait wait);
    void close();
    void half_close();                            // nothing more is sent; answers are still read
    void forgotten_after(int seconds);            // of close(): then this machine answers with RST
    void reset();                                 // RST instead of FIN
    void small_receive_buffer(int bytes = 4096);  // before much has come

  private:
    using Deadline = std::chrono::steady_clock::time_point;
    bool read_more(Deadline deadline);
    std::optional<std::string> line(Deadline deadline);
    bool chunk(Deadline deadline);

    int fd_ = -1;
    std::string bytes_;   // received, not consumed
    std::string events_;  // of a chunked body, without framing
    bool body_ended_ = false;
    bool peer_closed_ = false;
};

// "POST path HTTP/1.1" with JSON headers and `extra` header lines (each with CR LF).
std::string post_request(std::string_view path, std::string_view body, std::string_view extra = "");
std::string get_request(std::string_view path, std::string_view extra = "");

// One request on a connection of its own.
std::optional<HttpResponse> get(std::uint16_t port, std::string_view path, Wait wait = kPatience);
std::optional<HttpResponse> post(std::uint16_t port, std::string_view path, std::string_view body,
                                 Wait wait = kPatience);

}  // namespace strata::tests
