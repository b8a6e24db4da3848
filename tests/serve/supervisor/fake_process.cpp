// Engine processes that exist only in the test.
#include "tests/serve/supervisor/fake_process.hpp"

#include <algorithm>

namespace strata::serve::tests {

namespace {

constexpr pid_t kFirstPid = 4000000;  // above what Linux gives

class FakeProcess : public EngineProcess {
  public:
    explicit FakeProcess(std::shared_ptr<ProcessRecord> record) : record_(std::move(record)) {}
    FakeProcess(const FakeProcess&) = delete;
    FakeProcess& operator=(const FakeProcess&) = delete;
    ~FakeProcess() override { record_->destroyed = true; }

    pid_t pid() const override { return kFirstPid + record_->number; }
    void write_line(std::string line) override { record_->written.push_back(std::move(line)); }
    void close_stdin() override { record_->stdin_closed = true; }
    void send_signal(int number) override { record_->signals.push_back(number); }
    void kill_group() override { record_->group_killed = true; }

  private:
    std::shared_ptr<ProcessRecord> record_;
};

}  // namespace

void ProcessRecord::end(const ExitStatus& status) {
    ended = true;
    events->on_exit(status);
    events->on_drained();
}

bool ProcessRecord::signalled(int wanted) const {
    return std::find(signals.begin(), signals.end(), wanted) != signals.end();
}

std::size_t ProcessRecord::written_count(const std::string& head) const {
    return static_cast<std::size_t>(
        std::count_if(written.begin(), written.end(),
                      [&head](const std::string& line) { return line.rfind(head, 0) == 0; }));
}

std::uint64_t ProcessRecord::last_gen_id() const {
    for (auto line = written.rbegin(); line != written.rend(); ++line) {
        const std::size_t at = line->find(" id=");
        if (line->rfind("GEN ", 0) == 0 && at != std::string::npos) {
            return std::stoull(line->substr(at + 4));
        }
    }
    return 0;
}

Result<std::unique_ptr<EngineProcess>, LaunchRefusal> FakeLauncher::launch(const EngineCommand&,
                                                                           ProcessEvents& events) {
    ++attempts;
    attempt_times.push_back(time_.now());
    if (!refusal.text.empty()) return Failure<LaunchRefusal>{refusal};
    auto record = std::make_shared<ProcessRecord>();
    record->number = static_cast<int>(launches.size()) + 1;
    record->events = &events;
    launches.push_back(record);
    if (at_launch) time_.post([this, record] { at_launch(*record); });
    return std::unique_ptr<EngineProcess>(std::make_unique<FakeProcess>(record));
}

}  // namespace strata::serve::tests
