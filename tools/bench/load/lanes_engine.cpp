#include "tools/bench/load/lanes_engine.hpp"

#include <utility>

#include <boost/asio/post.hpp>

namespace strata::bench {

namespace {

constexpr std::int64_t kContextTokens = 32'768;

}  // namespace

std::int64_t steady_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

LanesEngine::LanesEngine(boost::asio::io_context& io, std::vector<std::int32_t> vocabulary,
                         SaidTimes said, std::chrono::microseconds between_tokens)
    : io_(io),
      vocabulary_(std::move(vocabulary)),
      said_(said),
      between_(between_tokens),
      timer_(io) {}

serve::RequestId LanesEngine::submit(protocol::GenCommand command,
                                     std::shared_ptr<serve::RequestListener> listener) {
    const serve::RequestId id = ++last_id_;
    Lane lane;
    lane.listener = std::move(listener);
    lane.seed = command.seed;
    lane.wanted = static_cast<std::size_t>(command.max_new);
    lane.prompt_tokens = static_cast<std::int64_t>(command.ids.size());
    lanes_[id] = std::move(lane);
    boost::asio::post(io_, [this, id] { admit(id); });
    return id;
}

void LanesEngine::admit(serve::RequestId id) {
    const auto lane = lanes_.find(id);
    if (lane == lanes_.end()) return;
    lane->second.listener->on_admitted({1, id});
    due_.push({Clock::now() + between_, id});
    set_timer();
}

void LanesEngine::set_timer() {
    if (due_.empty()) return;
    timer_.expires_at(due_.top().when);
    timer_.async_wait([this](boost::system::error_code code) {
        if (!code) say_due();
    });
}

void LanesEngine::say_due() {
    const Clock::time_point now = Clock::now();
    while (!due_.empty() && due_.top().when <= now) {
        const Due next = due_.top();
        due_.pop();
        const auto lane = lanes_.find(next.id);
        if (lane == lanes_.end()) continue;
        if (lane->second.said < lane->second.wanted) {
            due_.push({next.when + between_, next.id});
            say(next.id, lane->second);
            continue;
        }
        const Lane ended = std::move(lane->second);
        lanes_.erase(lane);
        protocol::DoneLine done;
        done.id = next.id;
        done.finish = protocol::Finish::length;
        done.generated = static_cast<std::int64_t>(ended.said);
        done.prompt_tokens = ended.prompt_tokens;
        done.prompt_read = ended.prompt_tokens;
        ended.listener->on_done(done);
    }
    set_timer();
}

void LanesEngine::say(serve::RequestId id, Lane& lane) {
    protocol::TokenLine line;
    line.id = id;
    line.token = vocabulary_[word_of(lane.seed, lane.said, vocabulary_.size())];
    const std::size_t token = lane.said++;
    const bool timed = lane.seed < said_.streams && token < said_.tokens;
    if (timed) said_.at(lane.seed, token) = steady_ns();
    const auto listener = lane.listener;
    listener->on_token(line);
}

serve::EngineView LanesEngine::view() const {
    serve::EngineView view;
    view.state = serve::EngineState::ready;
    view.epoch = 1;
    view.engine_starts = 1;
    protocol::InfoLine info;
    info.context_tokens = kContextTokens;
    view.info = info;
    view.max_context = kContextTokens;
    return view;
}

}  // namespace strata::bench
