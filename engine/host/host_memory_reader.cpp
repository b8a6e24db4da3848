// See host_memory_reader.hpp.
#include "engine/host/host_memory_reader.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include "strata/core/checked.hpp"

namespace strata {

namespace {

// A mount table of thousands of lines fits; what is larger is not read.
constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

// A process may be moved to another cgroup while it runs: the paths are looked up again after so
// many readings, at the default interval every half minute.
constexpr std::int64_t kReadingsWithPlaces = 16;

// 150 ms of waiting within 2 s. Without CAP_SYS_RESOURCE the window must be a multiple of 2 s.
constexpr std::string_view kPressureTrigger = "some 150000 2000000";

enum class FileRead : std::uint8_t { whole, missing, unreadable };

FileRead read_file(const std::string& path, std::string& text) {
    text.clear();
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        // ENODEV: a cgroup that was removed while its directory was still open.
        const bool missing = errno == ENOENT || errno == ENOTDIR || errno == ENODEV;
        return missing ? FileRead::missing : FileRead::unreadable;
    }
    std::array<char, 4096> piece{};
    ssize_t count = 0;
    while ((count = read(file, piece.data(), piece.size())) != 0) {
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 || text.size() + static_cast<std::size_t>(count) > kFileBytesMax) break;
        text.append(piece.data(), static_cast<std::size_t>(count));
    }
    ::close(file);
    return count == 0 ? FileRead::whole : FileRead::unreadable;
}

// File pages that this process has mapped: RssFile of /proc/self/status, in bytes. Absent on a
// kernel before 4.5; then none are held.
std::uint64_t mapped_file_bytes(std::string_view status) {
    constexpr std::string_view kName = "RssFile:";
    const std::size_t at = status.find(kName);
    if (at == std::string_view::npos) return 0;
    const std::string_view line = status.substr(at + kName.size(), 32);
    const std::size_t first = line.find_first_of("0123456789");
    const auto kib = first == std::string_view::npos
                         ? std::nullopt
                         : parse_cgroup_number(line.substr(first, line.find(' ', first) - first));
    return kib ? checked_mul<std::uint64_t>(*kib, 1024).value_or(0) : 0;
}

struct CgroupFiles {
    const char* max;
    const char* high;  // null: this version has none
    const char* usage;
};

CgroupFiles files_of(CgroupVersion version) {
    if (version == CgroupVersion::v2) return {"/memory.max", "/memory.high", "/memory.current"};
    return {"/memory.limit_in_bytes", nullptr, "/memory.usage_in_bytes"};
}

}  // namespace

MemoryReading HostMemoryReader::sample_host_memory() noexcept {
    try {
        return sources_.replacement_file.empty() ? system() : replacement();
    } catch (const std::bad_alloc&) {
        return {};
    }
}

MemoryReading HostMemoryReader::replacement() {
    if (read_file(sources_.replacement_file, text_) != FileRead::whole) return {};
    const auto mib = parse_cgroup_number(text_);
    if (!mib) return {};
    return {checked_mul<std::uint64_t>(*mib, std::uint64_t{1} << 20), MemoryBound::host};
}

void HostMemoryReader::find_places() {
    if (readings_with_places_-- > 0) return;
    readings_with_places_ = kReadingsWithPlaces - 1;
    places_.clear();
    std::string own;
    if (read_file(sources_.root + "/proc/self/cgroup", own) != FileRead::whole) return;
    if (read_file(sources_.root + "/proc/self/mountinfo", text_) != FileRead::whole) return;
    places_ = cgroup_places(own, text_);
}

bool HostMemoryReader::add_cgroup(CgroupVersion version, const std::string& directory,
                                  std::vector<CgroupMemory>& into) {
    const CgroupFiles files = files_of(version);
    const std::string at = sources_.root + directory;
    CgroupMemory memory;
    const auto limit = [&](const char* name, std::optional<std::uint64_t>& bytes) {
        if (name == nullptr) return true;
        const FileRead result = read_file(at + name, text_);
        if (result == FileRead::whole) bytes = parse_cgroup_limit(text_);
        return result != FileRead::unreadable;
    };
    if (!limit(files.max, memory.max_bytes) || !limit(files.high, memory.high_bytes)) return false;
    if (!memory.max_bytes && !memory.high_bytes) return true;
    if (read_file(at + files.usage, text_) == FileRead::whole) {
        memory.usage_bytes = parse_cgroup_number(text_);
    }
    if (read_file(at + "/memory.stat", text_) == FileRead::whole) {
        memory.reclaimable_bytes = parse_reclaimable(text_, version);
    }
    into.push_back(memory);
    return true;
}

MemoryReading HostMemoryReader::system() {
    HostMemoryFigures figures;
    figures.own_limit_bytes = sources_.own_limit_bytes;
    if (read_file(sources_.root + "/proc/meminfo", text_) != FileRead::whole) return {};
    figures.mem_available_bytes = parse_mem_available(text_);
    if (read_file(sources_.root + "/proc/self/status", text_) == FileRead::whole) {
        figures.resident_bytes = parse_resident(text_);
        figures.held_file_bytes = mapped_file_bytes(text_);
    }
    find_places();
    for (const CgroupPlace& place : places_) {
        for (const std::string& directory : place.directories) {
            if (!add_cgroup(place.version, directory, figures.cgroups)) return {};
        }
    }
    return read_available(figures);
}

void trim_heap() noexcept {
    malloc_trim(0);
}

void keep_large_memory_out_of_heap() noexcept {
    constexpr int kLargeBytesMin = 1 << 20;
    mallopt(M_MMAP_THRESHOLD, kLargeBytesMin);
}

PressureTrigger::PressureTrigger(const char* path) {
    descriptor_ = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (descriptor_ < 0) return;
    // The kernel wants the end of the text as well.
    const auto written = write(descriptor_, kPressureTrigger.data(), kPressureTrigger.size() + 1);
    if (written != static_cast<ssize_t>(kPressureTrigger.size() + 1)) close();
}

PressureTrigger::~PressureTrigger() {
    close();
}

void PressureTrigger::close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

bool PressureTrigger::fired() {
    if (descriptor_ < 0) return false;
    pollfd wait{descriptor_, POLLPRI, 0};
    if (poll(&wait, 1, 0) <= 0) return false;
    if ((wait.revents & (POLLERR | POLLNVAL)) != 0) {
        close();
        return false;
    }
    return (wait.revents & POLLPRI) != 0;
}

}  // namespace strata
