// Counts what a test left behind, from /proc.
#include "tests/support/process_epilogue.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <dirent.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace strata::tests {

namespace {

constexpr std::chrono::milliseconds kSettle{10'000};  // on a loaded machine, too
constexpr std::chrono::milliseconds kPause{10};

std::vector<std::string> entries(const std::string& folder) {
    std::vector<std::string> names;
    DIR* const open = ::opendir(folder.c_str());
    if (open == nullptr) return names;
    const std::string own = std::to_string(::dirfd(open));
    for (const dirent* entry = ::readdir(open); entry != nullptr; entry = ::readdir(open)) {
        const std::string name = entry->d_name;
        if (name[0] != '.' && !(folder == "/proc/self/fd" && name == own)) names.push_back(name);
    }
    ::closedir(open);
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<std::string> open_fds() {
    std::vector<std::string> out;
    for (const std::string& name : entries("/proc/self/fd")) {
        std::array<char, 256> target{};
        const std::string link = "/proc/self/fd/" + name;
        const ssize_t length = ::readlink(link.c_str(), target.data(), target.size() - 1);
        out.push_back(name + " -> " + (length > 0 ? target.data() : "?"));
    }
    return out;
}

// state and name of a process; empty when there is none.
std::string state_and_name(const std::string& pid) {
    std::ifstream in("/proc/" + pid + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::size_t open = text.find('(');
    const std::size_t close = text.rfind(')');
    if (close == std::string::npos || close + 2 >= text.size()) return "";
    return text.substr(close + 2, 1) + " " + text.substr(open + 1, close - open - 1);
}

void append_added(std::string& out, const std::string& what, const std::vector<std::string>& now,
                  const std::vector<std::string>& before) {
    for (const std::string& each : now) {
        if (std::find(before.begin(), before.end(), each) == before.end()) {
            out += what + " " + each + "; ";
        }
    }
}

}  // namespace

std::vector<std::string> child_processes() {
    std::vector<std::string> out;
    for (const std::string& thread : entries("/proc/self/task")) {
        std::ifstream in("/proc/self/task/" + thread + "/children");
        for (std::string pid; in >> pid;) out.push_back(pid + " " + state_and_name(pid));
    }
    return out;
}

bool process_lives(int pid) {
    const std::string facts = state_and_name(std::to_string(pid));
    return !facts.empty() && facts[0] != 'Z' && facts[0] != 'X';
}

long cpu_ticks_of(int pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::size_t close = text.rfind(')');
    if (close == std::string::npos) return 0;
    std::istringstream fields(text.substr(close + 2));
    constexpr int kFieldsBeforeTime = 11;  // state is the first, utime the twelfth after the name
    std::string skipped;
    for (int i = 0; i < kFieldsBeforeTime; ++i) fields >> skipped;
    long user = 0;
    long system = 0;
    fields >> user >> system;
    return user + system;
}

ProcessEpilogue::ProcessEpilogue()
    : fds_(open_fds()), children_(child_processes()), threads_(entries("/proc/self/task").size()) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

std::string ProcessEpilogue::leftovers() const {
    std::string out;
    const auto until = std::chrono::steady_clock::now() + kSettle;
    do {
        out.clear();
        append_added(out, "descriptor", open_fds(), fds_);
        append_added(out, "child", child_processes(), children_);
        const std::size_t threads = entries("/proc/self/task").size();
        if (threads > threads_) out += std::to_string(threads - threads_) + " more threads; ";
        if (out.empty()) return out;
        std::this_thread::sleep_for(kPause);
    } while (std::chrono::steady_clock::now() < until);
    return out;
}

}  // namespace strata::tests
