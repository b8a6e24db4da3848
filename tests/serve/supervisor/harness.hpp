// A supervisor with real fake engines, driven from a test: one loop, a recording log, recording
// listeners. The epilogue is part of it: finish() shuts down and says what is left behind.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "serve/supervisor/asio_process.hpp"
#include "serve/supervisor/asio_time.hpp"
#include "serve/supervisor/engine_supervisor.hpp"
#include "tests/serve/supervisor/patience.hpp"
#include "tests/serve/supervisor/recorders.hpp"
#include "tests/support/process_epilogue.hpp"

namespace strata::serve::tests {

// Every limit of the product cut to what a test can wait for.
SupervisorConfig quick_config(std::vector<std::string> script);

class Harness {
  public:
    explicit Harness(const std::vector<std::string>& script);
    explicit Harness(const SupervisorConfig& config);

    // Turns the loop until `holds` or `limit` is over; returns whether it holds.
    bool run_until(const std::function<bool()>& holds, std::chrono::milliseconds limit = late());
    void run_for(std::chrono::milliseconds span);
    bool run_until_ready() {
        return run_until([this] { return supervisor->view().state == EngineState::ready; });
    }

    // A request that writes `max_new` tokens after a prompt of three.
    std::shared_ptr<RecordingListener> submit(std::int64_t max_new);
    // Shuts down in order and destroys the supervisor. Empty, or what was wrong: grandchildren that
    // live, leftovers of the epilogue, listeners that did not hear exactly one final call.
    std::string finish();

    // Waits for a line of the engine's stderr that begins with `head`; the rest of it.
    std::string stderr_after(const std::string& head);

    strata::tests::ProcessEpilogue epilogue;
    RecordingLog log;
    std::unique_ptr<boost::asio::io_context> loop;
    std::unique_ptr<AsioTime> time;
    std::unique_ptr<AsioLauncher> launcher;
    std::unique_ptr<EngineSupervisor> supervisor;
    std::vector<std::shared_ptr<RecordingListener>> listeners;
};

}  // namespace strata::serve::tests
