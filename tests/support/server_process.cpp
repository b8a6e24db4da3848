#include "tests/support/server_process.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strata::tests {

namespace {

std::string read_text(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

// The server gives an engine its own options: the fake one's are put before them by a script.
std::string write_wrapper(const std::string& folder, const std::vector<std::string>& options) {
    const std::string path = folder + "/engine.sh";
    std::ofstream out(path);
    out << "#!/bin/sh\nexec " << quoted(STRATA_TEST_BIN_DIR "/strata-fake-engine");
    for (const std::string& option : options) out << ' ' << quoted(option);
    out << " \"$@\"\n";
    out.close();
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
}

std::uint16_t port_in(const std::string& log) {
    const std::string before = "listening on http://127.0.0.1:";
    const std::size_t at = log.find(before);
    if (at == std::string::npos || log.find(';', at) == std::string::npos) return 0;
    return static_cast<std::uint16_t>(std::atoi(log.c_str() + at + before.size()));
}

}  // namespace

void pause(Wait time) {
    std::this_thread::sleep_for(time);
}

ServerProcess::ServerProcess(const ServerOptions& options) {
    std::string name = std::filesystem::temp_directory_path() / "strata-serve-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    const std::string engine = options.real_engine ? std::string(STRATA_BIN_DIR "/strata-engine")
                                                   : write_wrapper(folder_, options.engine);
    std::vector<std::string> words = {
        STRATA_BIN_DIR "/strata-serve", "--model", "demo", "--port", "0", "--engine", engine};
    if (!options.real_engine) words.insert(words.end(), {"--max-context", "4096"});
    words.insert(words.end(), options.server.begin(), options.server.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log = folder_ + "/log";
    pid_ = ::fork();
    if (pid_ == 0) {
        const int out = ::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
        const int in = ::open("/dev/null", O_RDONLY);
        ::dup2(in, 0);
        ::dup2(out, 1);
        ::dup2(out, 2);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    eventually([&] {
        port_ = port_in(this->log());
        return port_ != 0 || has_ended();
    });
    if (options.wait_until_ready && port_ != 0) wait_ready();
}

ServerProcess::~ServerProcess() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

bool ServerProcess::has_ended() const {
    siginfo_t facts{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &facts, WEXITED | WNOHANG | WNOWAIT);
    return facts.si_pid == pid_;
}

std::string ServerProcess::log() const {
    return read_text(folder_ + "/log");
}

pid_t ServerProcess::engine_pid() const {
    const std::string id = std::to_string(pid_);
    std::istringstream children(read_text("/proc/" + id + "/task/" + id + "/children"));
    pid_t engine = 0;
    children >> engine;
    return engine;
}

bool ServerProcess::wait_ready(Wait wait) const {
    return eventually(
        [&] {
            const std::optional<HttpResponse> health = get(port_, "/health");
            return health && health->status == 200;
        },
        wait);
}

bool ServerProcess::log_has(const std::string& text, Wait wait) const {
    return eventually([&] { return log().find(text) != std::string::npos; }, wait);
}

std::optional<int> ServerProcess::wait_exit(Wait wait) {
    int status = 0;
    if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, wait)) {
        return std::nullopt;
    }
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void ServerProcess::signal(int number) const {
    ::kill(pid_, number);
}

long resident_kib(pid_t pid) {
    const std::string text = read_text("/proc/" + std::to_string(pid) + "/status");
    const std::size_t at = text.find("VmRSS:");
    return at == std::string::npos ? 0 : std::atol(text.c_str() + at + 6);
}

}  // namespace strata::tests
