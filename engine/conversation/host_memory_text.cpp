// The kernel's files as values: the parsers of core/host_memory.hpp. Formats: proc(5), and the
// kernel's Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
#include <charconv>
#include <utility>

#include "strata/core/checked.hpp"
#include "strata/core/host_memory.hpp"

namespace strata {

namespace {

// v1 writes "no limit" as the largest multiple of the page size, which depends on the machine.
constexpr std::uint64_t kNoLimitBytes = std::uint64_t{1} << 62;

// A path in a cgroup tree; deeper ones than this are not made by anybody.
constexpr std::size_t kCgroupDepthMax = 64;

// Cuts the text up to `end` off `rest`, and `end` with it.
std::string_view next_piece(std::string_view& rest, char end) {
    const std::size_t at = rest.find(end);
    const std::string_view piece = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
    return piece;
}

std::string_view trimmed(std::string_view text) {
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
    while (!text.empty() && blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && blank(text.back())) text.remove_suffix(1);
    return text;
}

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
    return value;
}

// "name:   123 kB" of /proc, in bytes.
std::optional<std::uint64_t> kib_field(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        std::string_view line = next_piece(text, '\n');
        if (next_piece(line, ':') != name) continue;
        line = trimmed(line);
        if (!line.ends_with("kB")) return {};
        line.remove_suffix(2);
        const auto kib = number(trimmed(line));
        return kib ? checked_mul<std::uint64_t>(*kib, 1024) : std::nullopt;
    }
    return {};
}

bool in_list(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        if (next_piece(list, ',') == word) return true;
    }
    return false;
}

// mountinfo writes blanks in paths as \040 and the like.
std::string unescaped(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto octal = [&](std::size_t at) {
            return at < text.size() && text[at] >= '0' && text[at] <= '7';
        };
        if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
            const int code = (text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0';
            out += static_cast<char>(code);
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

struct CgroupMount {
    std::string root;   // the part of the tree that is mounted here
    std::string point;  // where
};

// One line of mountinfo, when it mounts the tree of `version` with the memory controller.
std::optional<CgroupMount> memory_mount(std::string_view line, CgroupVersion version) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) return {};
    std::string_view behind = line.substr(dash + 3);
    const std::string_view type = next_piece(behind, ' ');
    next_piece(behind, ' ');  // source
    const bool fits = version == CgroupVersion::v2 ? type == "cgroup2"
                                                   : type == "cgroup" && in_list(behind, "memory");
    if (!fits) return {};
    std::string_view rest = line;
    for (int skipped = 0; skipped < 3; ++skipped) next_piece(rest, ' ');  // id, parent, device
    const std::string_view root = next_piece(rest, ' ');
    const std::string_view point = next_piece(rest, ' ');
    if (root.empty() || point.empty()) return {};
    return CgroupMount{unescaped(root), unescaped(point)};
}

// The directory of `path` and of each ancestor that the mount shows.
std::vector<std::string> directories(const CgroupMount& mount, std::string_view path) {
    std::string_view below;  // of the mount point
    if (mount.root == "/") {
        below = path;
    } else if (path.starts_with(mount.root) &&
               (path.size() == mount.root.size() || path[mount.root.size()] == '/')) {
        below = path.substr(mount.root.size());
    }
    // A path outside of what is mounted (another namespace's): only the mount point is ours to see.
    if (below == "/" || below.find("..") != std::string_view::npos) below = {};
    std::vector<std::string> out;
    while (!below.empty() && out.size() < kCgroupDepthMax) {
        out.push_back(mount.point + std::string(below));
        below = below.substr(0, below.rfind('/'));
    }
    out.push_back(mount.point);
    return out;
}

}  // namespace

std::optional<std::uint64_t> parse_mem_available(std::string_view meminfo) {
    return kib_field(meminfo, "MemAvailable");
}

std::optional<std::uint64_t> parse_resident(std::string_view status) {
    return kib_field(status, "VmRSS");
}

std::optional<std::uint64_t> parse_cgroup_number(std::string_view text) {
    return number(trimmed(text));
}

std::optional<std::uint64_t> parse_cgroup_limit(std::string_view text) {
    const auto limit = number(trimmed(text));
    return limit && *limit < kNoLimitBytes ? limit : std::nullopt;
}

std::uint64_t parse_reclaimable(std::string_view memory_stat, CgroupVersion version) {
    std::uint64_t bytes = 0;
    while (!memory_stat.empty()) {
        std::string_view line = next_piece(memory_stat, '\n');
        const std::string_view name = next_piece(line, ' ');
        const bool counts = version == CgroupVersion::v2
                                ? name == "inactive_file" || name == "slab_reclaimable"
                                : name == "total_inactive_file";
        if (!counts) continue;
        bytes = checked_add(bytes, number(trimmed(line)).value_or(0)).value_or(bytes);
    }
    return bytes;
}

std::vector<CgroupPlace> cgroup_places(std::string_view self_cgroup, std::string_view mountinfo) {
    std::vector<CgroupPlace> places;
    while (!self_cgroup.empty()) {
        std::string_view line = next_piece(self_cgroup, '\n');
        const std::string_view id = next_piece(line, ':');
        const std::string_view controllers = next_piece(line, ':');
        const std::string_view path = line;  // may hold colons
        const bool v2 = id == "0" && controllers.empty();
        if ((!v2 && !in_list(controllers, "memory")) || !path.starts_with('/')) continue;
        const CgroupVersion version = v2 ? CgroupVersion::v2 : CgroupVersion::v1;
        for (std::string_view mounts = mountinfo; !mounts.empty();) {
            const auto mount = memory_mount(next_piece(mounts, '\n'), version);
            if (!mount) continue;
            places.push_back({version, directories(*mount, path)});
            break;
        }
    }
    return places;
}

}  // namespace strata
