// A supervisor under a fake clock with fake processes: minutes pass in microseconds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/supervisor/engine_supervisor.hpp"
#include "tests/serve/supervisor/fake_process.hpp"
#include "tests/serve/supervisor/fake_time.hpp"
#include "tests/serve/supervisor/recorders.hpp"

namespace strata::serve::tests {

inline constexpr ExitStatus kCrash{true, 11, false};

class Simulation {
  public:
    explicit Simulation(SupervisorConfig config = {})
        : supervisor(std::move(config), launcher, time, log, [this] { return dice; }) {}

    // Starts, and makes the first engine ready.
    void start_ready() {
        supervisor.start();
        time.settle();
        launcher.last().say_ready();
        time.settle();
    }

    std::shared_ptr<RecordingListener> submit(std::int64_t max_new = 8) {
        auto listener = std::make_shared<RecordingListener>();
        protocol::GenCommand command;
        command.max_new = max_new;
        command.ids = {1, 2, 3};
        listener->id = supervisor.submit(command, listener);
        listeners.push_back(listener);
        return listener;
    }

    void cancel(const std::shared_ptr<RecordingListener>& listener) {
        supervisor.cancel(listener->id);
        listener->cancelled = true;
    }

    EngineState state() const { return supervisor.view().state; }

    static std::string token_line(std::uint64_t id, std::int64_t token) {
        return "T " + std::to_string(token) + " id=" + std::to_string(id);
    }
    static std::string done_line(std::uint64_t id, std::int64_t generated,
                                 const std::string& finish = "length") {
        return "DONE " + std::to_string(generated) + " 3 1.0 1.0 " + finish +
               " 0 0 0 0 0 0 0 0 3 id=" + std::to_string(id);
    }

    std::string complaints() const {
        std::string all;
        for (const auto& listener : listeners) all += listener->complaint();
        return all;
    }

    double dice = 0.5;  // the middle: no jitter
    FakeTime time;
    FakeLauncher launcher{time};
    RecordingLog log;
    EngineSupervisor supervisor;
    std::vector<std::shared_ptr<RecordingListener>> listeners;
};

}  // namespace strata::serve::tests
