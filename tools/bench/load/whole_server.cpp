// Files and processes of one run.
#include "tools/bench/load/whole_server.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strata::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartPatience{20};
constexpr std::chrono::milliseconds kLook{20};
constexpr const char* kQueueMax = "4096";  // more than there are streams

}  // namespace

WholeServer::WholeServer(const std::string& server_program, const std::string& own_program,
                         const std::string& model, TurnPlan plan)
    : plan_(std::move(plan)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "strata-load-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    plan_.times_path = folder_ + "/times";
    std::ofstream(plan_.times_path).close();
    std::filesystem::resize_file(plan_.times_path,
                                 plan_.streams * plan_.tokens * sizeof(std::int64_t));
    said_ = map_times(plan_);
    write_engine(own_program);
    start(server_program, model);
    read_port();
}

WholeServer::~WholeServer() {
    if (pid_ > 0) {
        ::kill(pid_, SIGTERM);  // its engine goes with it
        ::waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

// The server gives an engine its own options; what it does not know of stands before them.
void WholeServer::write_engine(const std::string& own_program) {
    const std::string path = folder_ + "/engine";
    std::ofstream out(path);
    out << "#!/bin/sh\nexec '" << own_program << "' --as-engine '" << plan_.times_path << "' "
        << plan_.streams << ' ' << plan_.tokens << ' ' << plan_.tokens_per_second << " \"$@\"\n";
    out.close();
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

void WholeServer::start(const std::string& server_program, const std::string& model) {
    const std::string engine = folder_ + "/engine";
    const std::string log = folder_ + "/log";
    std::vector<const char*> words = {
        server_program.c_str(), "--model",     model.c_str(), "--port", "0", "--engine",
        engine.c_str(),         "--max-queue", kQueueMax,     nullptr};
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    ::execv(server_program.c_str(), const_cast<char* const*>(words.data()));
    ::_exit(127);
}

void WholeServer::read_port() {
    constexpr std::string_view kAddress = "listening on http://127.0.0.1:";
    constexpr std::string_view kReady = "OpenAI base URL";
    const auto until = Clock::now() + kStartPatience;
    while (pid_ > 0 && Clock::now() < until && !ended()) {
        std::ifstream in(folder_ + "/log");
        std::ostringstream text;
        text << in.rdbuf();
        const std::string log = text.str();
        const std::size_t at = log.find(kAddress);
        if (at != std::string::npos && log.find(kReady) != std::string::npos) {
            port_ = static_cast<std::uint16_t>(std::atoi(log.c_str() + at + kAddress.size()));
            return;
        }
        std::this_thread::sleep_for(kLook);
    }
}

bool WholeServer::ended() {
    if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
    return pid_ <= 0;
}

}  // namespace strata::bench
