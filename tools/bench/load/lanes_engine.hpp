// An engine that answers every request at once and at a fixed pace: what the server adds to the
// time of a token is then the server's alone. It writes down when it said each token.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/supervisor/engine_client.hpp"

namespace strata::bench {

// Shared by the server's process and the clients': nanoseconds of the steady clock at which stream
// `seed` said its token k; one row for each stream.
struct SaidTimes {
    std::int64_t* rows = nullptr;
    std::size_t streams = 0;
    std::size_t tokens = 0;
    std::int64_t& at(std::size_t stream, std::size_t token) const {
        return rows[stream * tokens + token];
    }
};

std::int64_t steady_ns();

class LanesEngine final : public serve::EngineClient {
  public:
    // `vocabulary`: the tokens it writes. Token k of seed s is word_of(s, k) of them.
    LanesEngine(boost::asio::io_context& io, std::vector<std::int32_t> vocabulary, SaidTimes said,
                std::chrono::microseconds between_tokens);

    serve::RequestId submit(protocol::GenCommand command,
                            std::shared_ptr<serve::RequestListener> listener) override;
    serve::RequestId submit_next(protocol::GenCommand command,
                                 std::shared_ptr<serve::RequestListener> listener) override {
        return submit(std::move(command), std::move(listener));
    }
    void load(std::function<void()>) override {}
    bool unload(std::function<void()>) override { return false; }
    void observe(serve::EngineObserver*) override {}
    void cache(const protocol::CacheCommand&, serve::CacheListener) override {}
    void cancel(serve::RequestId id) override { lanes_.erase(id); }
    void stop_writing(serve::RequestId id) override { lanes_.erase(id); }
    serve::EngineView view() const override;

    static std::size_t word_of(std::uint64_t seed, std::size_t token, std::size_t words) {
        return (seed * 37 + token * 11) % words;
    }

  private:
    using Clock = std::chrono::steady_clock;
    struct Lane {
        std::shared_ptr<serve::RequestListener> listener;
        std::uint64_t seed = 0;
        std::size_t said = 0;
        std::size_t wanted = 0;
        std::int64_t prompt_tokens = 0;
    };
    struct Due {
        Clock::time_point when;
        serve::RequestId id;
        bool operator>(const Due& other) const { return when > other.when; }
    };

    void admit(serve::RequestId id);
    void set_timer();
    void say_due();
    void say(serve::RequestId id, Lane& lane);

    boost::asio::io_context& io_;
    std::vector<std::int32_t> vocabulary_;
    SaidTimes said_;
    std::chrono::microseconds between_;
    boost::asio::steady_timer timer_;
    std::map<serve::RequestId, Lane> lanes_;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    serve::RequestId last_id_ = 0;
};

}  // namespace strata::bench
