// What the http room is told by the configuration, and its limits. Every limit is a named number
// with its reason; tests shorten the times.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::serve {

// No browser or client library sends more; each bounds what an unauthenticated stranger can make us
// hold before we know who he is.
inline constexpr std::size_t kRequestLineBytesMax = 8U << 10U;
inline constexpr std::size_t kHeaderLineBytesMax = 8U << 10U;
inline constexpr std::size_t kHeadersBytesMax = 32U << 10U;
inline constexpr std::size_t kHeadersMax = 100;
// What a client may send ahead while its request is being answered; then we stop reading.
inline constexpr std::size_t kReadAheadBytesMax = 64U << 10U;
// Chunk headers and trailers of a body: a chunk's size line has no use for more.
inline constexpr std::size_t kReadBufferBytesMax = 64U << 10U;
// A stuck reader costs at most this much; then its request is cancelled.
inline constexpr std::size_t kUnsentBytesMax = 4U << 20U;
// A body slower than this after the grace time is not a slow network but a held connection.
inline constexpr std::size_t kBodyBytesPerSecondMin = 64U << 10U;

struct HttpLimits {
    std::size_t body_bytes_max = 64U << 20U;  // --max-body-mib
    std::size_t connections_max = 4096;       // --max-connections
    std::size_t unsent_bytes_max = kUnsentBytesMax;
    std::chrono::milliseconds header_time{10'000};        // from the first byte to the last header
    std::chrono::milliseconds idle_time{75'000};          // between two requests
    std::chrono::milliseconds body_grace{30'000};         // before the body's rate counts
    std::chrono::milliseconds write_stall_time{120'000};  // no byte taken by the client
    std::chrono::milliseconds keep_alive_interval{10'000};  // silence in a stream
    std::chrono::milliseconds linger_time{2'000};           // a refused client may read its answer
    // Before a client that sends nothing more is asked whether it still waits: most answers that
    // are no text come sooner, and one that left is noticed within a chunk's time.
    std::chrono::milliseconds leave_check_time{100};
    // Of silence, before the kernel asks the other machine; it forgets a closed connection after
    // 60 s.
    std::chrono::milliseconds still_there_time{60'000};
};

struct AccessSettings {
    std::vector<std::string> api_keys;       // empty: no key is asked for
    std::vector<std::string> allowed_hosts;  // more names: exact, ".example.com", "*"
    std::vector<std::string> cors_origins;   // empty: CORS is off; "*" = any
    std::string listen_host;                 // as given with --host
    std::vector<std::string> own_names;      // of this machine; they count when listening wide
};

struct HttpSettings {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8080;  // 0 = any free one
    HttpLimits limits;
    AccessSettings access;
};

}  // namespace strata::serve
