// Engine processes that exist only in the test: it speaks for them and sees what they are told.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/supervisor/engine_process.hpp"
#include "tests/serve/supervisor/fake_time.hpp"

namespace strata::serve::tests {

// What a process did and was told; outlives the process.
struct ProcessRecord {
    int number = 0;  // 1 for the first launch
    ProcessEvents* events = nullptr;
    bool destroyed = false;
    bool stdin_closed = false;
    bool group_killed = false;
    bool ended = false;
    std::vector<std::string> written;
    std::vector<int> signals;

    void say(const std::string& line) const { events->on_line(line); }
    void say_ready() const {
        say("INFO protocol=1 context=4096 vocab=1000000");
        say("READY 4096 stop id ping batch=1");
    }
    // The process is reaped, and its pipes are at their end.
    void end(const ExitStatus& status);
    bool signalled(int number) const;
    // Lines written to it that begin with `head`.
    std::size_t written_count(const std::string& head) const;
    // id= of the last GEN written to it; 0 if there was none.
    std::uint64_t last_gen_id() const;
};

class FakeLauncher : public ProcessLauncher {
  public:
    explicit FakeLauncher(FakeTime& time) : time_(time) {}
    Result<std::unique_ptr<EngineProcess>, LaunchRefusal> launch(const EngineCommand& command,
                                                                 ProcessEvents& events) override;

    // Runs, from the loop, after each launch.
    std::function<void(ProcessRecord&)> at_launch;
    LaunchRefusal refusal;  // with a text: launches fail with it
    std::vector<std::shared_ptr<ProcessRecord>> launches;
    std::size_t attempts = 0;
    std::vector<TimePoint> attempt_times;
    ProcessRecord& last() { return *launches.back(); }

  private:
    FakeTime& time_;
};

}  // namespace strata::serve::tests
