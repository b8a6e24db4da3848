// An engine client whose engine is the test: it records what it is asked and answers when told, all
// on the I/O thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/supervisor/engine_client.hpp"

namespace strata::tests {

class ScriptedEngine : public serve::EngineClient {
  public:
    struct Asked {
        serve::RequestId id = 0;
        protocol::GenCommand command;
        std::shared_ptr<serve::RequestListener> listener;
    };

    ScriptedEngine() {
        now.state = serve::EngineState::ready;
        now.epoch = 1;
        now.engine_starts = 1;
        protocol::InfoLine info;
        info.context_tokens = 4096;
        now.info = info;
    }

    serve::RequestId submit(protocol::GenCommand command,
                            std::shared_ptr<serve::RequestListener> listener) override {
        asked.push_back({++last_id, std::move(command), std::move(listener)});
        return last_id;
    }
    serve::RequestId submit_next(protocol::GenCommand command,
                                 std::shared_ptr<serve::RequestListener> listener) override {
        return submit(std::move(command), std::move(listener));
    }
    void load(std::function<void()> when_settled) override {
        loads.push_back(std::move(when_settled));
    }
    bool unload(std::function<void()> when_settled) override {
        if (now.busy) return false;
        unloads.push_back(std::move(when_settled));
        return true;
    }
    void observe(serve::EngineObserver* who) override { observer = who; }
    void cache(const protocol::CacheCommand& command, serve::CacheListener answer) override {
        cache_asked.push_back(command);
        cache_answers.push_back(std::move(answer));
    }
    void cancel(serve::RequestId id) override {
        cancelled.push_back(id);
        for (Asked& each : asked) {
            if (each.id == id) each.listener.reset();
        }
    }
    void stop_writing(serve::RequestId id) override { stopped.push_back(id); }
    serve::EngineView view() const override { return now; }

    void admit(std::size_t index) {
        asked[index].listener->on_admitted({now.epoch, asked[index].id});
    }
    // True while somebody listens.
    bool token(std::size_t index, std::int32_t id) {
        if (!asked[index].listener) return false;
        protocol::TokenLine line;
        line.token = id;
        asked[index].listener->on_token(line);
        return true;
    }
    void done(std::size_t index, protocol::DoneLine line) {
        if (observer != nullptr) observer->on_ticket_done({now.epoch, asked[index].id}, line);
        const std::shared_ptr<serve::RequestListener> listener = std::move(asked[index].listener);
        if (listener) listener->on_done(line);
    }
    void fail(std::size_t index, const serve::EngineFailure& failure) {
        if (observer != nullptr) observer->on_ticket_lost({now.epoch, asked[index].id}, {});
        const std::shared_ptr<serve::RequestListener> listener = std::move(asked[index].listener);
        if (listener) listener->on_failure(failure);
    }

    serve::EngineView now;
    serve::EngineObserver* observer = nullptr;
    std::vector<protocol::CacheCommand> cache_asked;
    std::vector<serve::CacheListener> cache_answers;
    std::deque<Asked> asked;
    std::vector<serve::RequestId> cancelled;
    std::vector<serve::RequestId> stopped;
    std::vector<std::function<void()>> loads;  // what to call when they are over
    std::vector<std::function<void()>> unloads;

  private:
    serve::RequestId last_id = 0;
};

}  // namespace strata::tests
