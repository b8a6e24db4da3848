// Drives a supervisor with real fake engines.
#include "tests/serve/supervisor/harness.hpp"

#include <thread>

#include <sys/wait.h>

namespace strata::serve::tests {

namespace {

constexpr std::chrono::milliseconds kTurn{5};

// Orphans were given to this process (ProcessEpilogue): the dead ones are reaped here.
std::string living_grandchildren(const RecordingLog& log) {
    const std::string head = "grandchild ";
    std::string wrong;
    for (const std::string& line : log.engine_lines) {
        if (line.rfind(head, 0) != 0) continue;
        const pid_t pid = std::stoi(line.substr(head.size()));
        const auto until = std::chrono::steady_clock::now() + late();
        while (strata::tests::process_lives(pid) && std::chrono::steady_clock::now() < until) {
            std::this_thread::sleep_for(kTurn);
        }
        if (strata::tests::process_lives(pid)) wrong += line + " lives; ";
        ::waitpid(pid, nullptr, WNOHANG);
    }
    return wrong;
}

}  // namespace

SupervisorConfig quick_config(std::vector<std::string> script) {
    SupervisorConfig config;
    config.command.path = STRATA_TEST_BIN_DIR "/strata-fake-engine";
    for (std::string& statement : script) {
        config.command.arguments.push_back("--do");
        config.command.arguments.push_back(std::move(statement));
    }
    config.abort_grace = std::chrono::milliseconds(500);
    config.end_grace = std::chrono::milliseconds(300);
    config.quit_grace = std::chrono::milliseconds(500);
    config.term_grace = std::chrono::milliseconds(500);
    config.restart.back_off.fill(std::chrono::milliseconds(20));
    config.restart.jitter = 0;
    return config;
}

Harness::Harness(const std::vector<std::string>& script) : Harness(quick_config(script)) {}

Harness::Harness(const SupervisorConfig& config)
    : loop(std::make_unique<boost::asio::io_context>()),
      time(std::make_unique<AsioTime>(*loop)),
      launcher(std::make_unique<AsioLauncher>(*loop)),
      supervisor(
          std::make_unique<EngineSupervisor>(config, *launcher, *time, log, [] { return 0.5; })) {
    supervisor->start();
}

bool Harness::run_until(const std::function<bool()>& holds, std::chrono::milliseconds limit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!holds()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        loop->restart();
        loop->run_one_for(kTurn);
    }
    return true;
}

void Harness::run_for(std::chrono::milliseconds span) {
    const auto until = std::chrono::steady_clock::now() + span;
    run_until([until] { return std::chrono::steady_clock::now() >= until; }, span + late());
}

std::shared_ptr<RecordingListener> Harness::submit(std::int64_t max_new) {
    auto listener = std::make_shared<RecordingListener>();
    protocol::GenCommand command;
    command.max_new = max_new;
    command.ids = {1, 2, 3};
    listener->id = supervisor->submit(command, listener);
    listeners.push_back(listener);
    return listener;
}

std::string Harness::stderr_after(const std::string& head) {
    std::string rest;
    run_until([&] {
        for (const std::string& line : log.engine_lines) {
            if (line.rfind(head, 0) != 0) continue;
            rest = line.substr(head.size());
            return true;
        }
        return false;
    });
    return rest;
}

std::string Harness::finish() {
    bool stopped = false;
    supervisor->shut_down([&stopped] { stopped = true; });
    std::string wrong;
    if (!run_until([&stopped] { return stopped; })) wrong += "did not stop; ";
    loop->restart();
    loop->poll();
    supervisor.reset();
    launcher.reset();
    time.reset();
    loop.reset();
    for (const auto& listener : listeners) wrong += listener->complaint();
    wrong += living_grandchildren(log);
    return wrong + epilogue.leftovers();
}

}  // namespace strata::serve::tests
