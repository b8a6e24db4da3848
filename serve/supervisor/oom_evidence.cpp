// Reads memory.events of this process's control group.
#include "serve/supervisor/oom_evidence.hpp"

#include <fstream>
#include <string>

namespace strata::serve {

std::uint64_t oom_kill_count() {
    std::ifstream groups("/proc/self/cgroup");
    std::string path;
    for (std::string line; std::getline(groups, line);) {
        if (line.starts_with("0::")) path = line.substr(3);
    }
    if (path.empty()) return 0;
    std::ifstream events("/sys/fs/cgroup" + path + "/memory.events");
    std::string name;
    for (std::uint64_t count = 0; events >> name >> count;) {
        if (name == "oom_kill") return count;
    }
    return 0;
}

}  // namespace strata::serve
