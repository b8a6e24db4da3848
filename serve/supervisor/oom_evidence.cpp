// Reads memory.events (cgroup v2) or memory.oom_control (v1) of this process's control group.
#include "serve/supervisor/oom_evidence.hpp"

#include <fstream>
#include <optional>
#include <string>

namespace strata::serve {

namespace {

// The count in a file of "name number" lines; none when the file cannot be read.
std::optional<std::uint64_t> count_in(const std::string& file) {
    std::ifstream events(file);
    std::string name;
    for (std::uint64_t count = 0; events >> name >> count;) {
        if (name == "oom_kill") return count;
    }
    return std::nullopt;
}

struct Group {
    std::string mount;
    std::string path;  // below the mount
    std::string file;
};

// The group that limits memory: of v1 where that controller is there, else of v2.
Group memory_group() {
    std::ifstream groups("/proc/self/cgroup");
    Group found;
    for (std::string line; std::getline(groups, line);) {
        const std::size_t second = line.find(':', line.find(':') + 1);
        if (second == std::string::npos) continue;
        if (line.find(":memory:") != std::string::npos) {
            return {"/sys/fs/cgroup/memory", line.substr(second + 1), "/memory.oom_control"};
        }
        if (line.starts_with("0::")) {
            found = {"/sys/fs/cgroup", line.substr(second + 1), "/memory.events"};
        }
    }
    return found;
}

}  // namespace

std::uint64_t oom_kill_count() {
    const Group group = memory_group();
    if (group.mount.empty()) return 0;
    const std::optional<std::uint64_t> own = count_in(group.mount + group.path + group.file);
    if (own) return *own;
    // A container may see the host's path here and its own group at the mount.
    return count_in(group.mount + group.file).value_or(0);
}

}  // namespace strata::serve
