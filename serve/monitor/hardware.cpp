#include "serve/monitor/hardware.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <thread>

namespace strata::serve {
namespace {

std::string read_all(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Takes the next number off the front of `text`.
std::optional<std::uint64_t> next_number(std::string_view& text) {
    const auto start = text.find_first_not_of(" \t");
    if (start == std::string_view::npos) return std::nullopt;
    text.remove_prefix(start);
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    return value;
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat) {
    if (!proc_stat.starts_with("cpu ")) return std::nullopt;
    std::string_view line = proc_stat.substr(4, proc_stat.find('\n') - 4);
    // user nice system idle iowait irq softirq steal: guest times are part of user and nice.
    constexpr int kColumns = 8;
    constexpr int kIdle = 3;
    constexpr int kIoWait = 4;
    CpuTimes times;
    for (int column = 0; column < kColumns; ++column) {
        const auto ticks = next_number(line);
        if (!ticks) return column > kIdle ? std::optional(times) : std::nullopt;
        times.all += *ticks;
        if (column != kIdle && column != kIoWait) times.busy += *ticks;
    }
    return times;
}

std::optional<std::int64_t> parse_kib_line(std::string_view text, std::string_view name) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        std::string_view line = text.substr(at, end - at);
        if (line.starts_with(name) && line.substr(name.size()).starts_with(":")) {
            line.remove_prefix(name.size() + 1);
            constexpr std::uint64_t kKibMax = std::uint64_t{1} << 52;  // keeps bytes inside int64
            const auto kib = next_number(line);
            if (!kib || *kib > kKibMax) return std::nullopt;
            return static_cast<std::int64_t>(*kib) * 1024;
        }
        at = end + 1;
    }
    return std::nullopt;
}

std::optional<double> busy_share(const CpuTimes& before, const CpuTimes& after) {
    if (after.all <= before.all || after.busy < before.busy) return std::nullopt;
    return static_cast<double>(after.busy - before.busy) /
           static_cast<double>(after.all - before.all);
}

HardwareReading HardwareReader::read(int engine_pid) {
    HardwareReading reading;
    const auto times = parse_cpu_times(read_all("/proc/stat"));
    if (times && before_) reading.cpu_share = busy_share(*before_, *times);
    before_ = times;
    const std::string memory = read_all("/proc/meminfo");
    reading.ram_total_bytes = parse_kib_line(memory, "MemTotal");
    reading.ram_available_bytes = parse_kib_line(memory, "MemAvailable");
    if (engine_pid > 0) {
        const std::string status = read_all("/proc/" + std::to_string(engine_pid) + "/status");
        reading.engine_resident_bytes = parse_kib_line(status, "VmRSS");
    }
    reading.server_resident_bytes = parse_kib_line(read_all("/proc/self/status"), "VmRSS");
    const unsigned int threads = std::thread::hardware_concurrency();
    if (threads > 0) reading.cpu_threads = threads;
    reading.gpus = gpus_.read();
    return reading;
}

}  // namespace strata::serve
