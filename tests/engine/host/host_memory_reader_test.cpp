// The reader of the system's memory, on systems that are laid out as folders, and on this one.
#include "engine/host/host_memory_reader.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

namespace strata {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// A folder that stands for "/", with a process in it.
class System {
  public:
    System() {
        std::string name = (fs::temp_directory_path() / "strata-memory-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        root_ = name;
        write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n");
        write("/proc/self/status", "Name:\tx\nVmRSS:\t  102400 kB\nRssFile:\t   10240 kB\n");
    }
    ~System() { fs::remove_all(root_); }
    void write(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root_ + path).parent_path());
        std::ofstream(root_ + path) << text;
    }
    void remove(const std::string& path) const { fs::remove(root_ + path); }
    MemoryReading read(std::optional<std::uint64_t> own_limit = {}) const {
        return HostMemoryReader({root_, own_limit, {}}).sample_host_memory();
    }
    const std::string& root() const { return root_; }

    // A v2 system with this process in /outer/inner.
    void with_cgroups_v2() const {
        write("/proc/self/cgroup", "0::/outer/inner\n");
        write("/proc/self/mountinfo",
              "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
        limit("/outer/inner", "max", 0);
        limit("/outer", "max", 0);
    }
    void limit(const std::string& group, const std::string& max, std::uint64_t usage,
               std::uint64_t inactive_file = 0) const {
        const std::string at = "/sys/fs/cgroup" + group;
        write(at + "/memory.max", max + "\n");
        write(at + "/memory.high", "max\n");
        write(at + "/memory.current", std::to_string(usage) + "\n");
        write(at + "/memory.stat",
              "anon 1\ninactive_file " + std::to_string(inactive_file) + "\nslab_reclaimable 0\n");
    }

  private:
    std::string root_;
};

}  // namespace

TEST_CASE("without cgroups the host's MemAvailable is the reading") {
    const System system;
    CHECK(system.read() == MemoryReading{4096 * kMiB, MemoryBound::host});
}

TEST_CASE("without a MemAvailable the reading is unknown") {
    const System system;
    SECTION("no such line") {
        system.write("/proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 4194304 kB\n");
    }
    SECTION("no such file") {
        system.remove("/proc/meminfo");
    }
    CHECK_FALSE(system.read().available_bytes);
}

TEST_CASE("the limit of a parent group binds less what it can take back and we do not hold") {
    const System system;
    system.with_cgroups_v2();
    CHECK(system.read() == MemoryReading{4096 * kMiB, MemoryBound::host});
    // 1000 - 700 + (110 inactive - 10 that are mapped by us)
    system.limit("/outer", std::to_string(1000 * kMiB), 700 * kMiB, 110 * kMiB);
    CHECK(system.read() == MemoryReading{400 * kMiB, MemoryBound::cgroup_max});
    system.write("/sys/fs/cgroup/outer/inner/memory.high", std::to_string(50 * kMiB));
    CHECK(system.read() == MemoryReading{50 * kMiB, MemoryBound::cgroup_high});
}

TEST_CASE("a limit without a usage is unknown") {
    const System system;
    system.with_cgroups_v2();
    system.limit("/outer/inner", std::to_string(1000 * kMiB), 1);
    system.remove("/sys/fs/cgroup/outer/inner/memory.current");
    CHECK_FALSE(system.read().available_bytes);
}

TEST_CASE("a limit that is there and cannot be read is unknown") {
    const System system;
    system.with_cgroups_v2();
    system.remove("/sys/fs/cgroup/outer/memory.max");
    fs::create_directory(system.root() + "/sys/fs/cgroup/outer/memory.max");
    CHECK_FALSE(system.read().available_bytes);
}

TEST_CASE("groups of version 1 bind as well") {
    const System system;
    system.write("/proc/self/cgroup", "4:memory:/box\n1:cpu:/\n0::/\n");
    system.write("/proc/self/mountinfo",
                 "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n");
    system.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes",
                 std::to_string(500 * kMiB) + "\n");
    system.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes",
                 std::to_string(300 * kMiB) + "\n");
    system.write("/sys/fs/cgroup/memory/box/memory.stat",
                 "inactive_file 1\ntotal_inactive_file 0\n");
    CHECK(system.read() == MemoryReading{200 * kMiB, MemoryBound::cgroup_max});
}

TEST_CASE("an own limit leaves what the resident set does not take") {
    const System system;
    CHECK(system.read(300 * kMiB) == MemoryReading{200 * kMiB, MemoryBound::own_limit});
    CHECK(system.read(50 * kMiB) == MemoryReading{0, MemoryBound::own_limit});
    system.remove("/proc/self/status");
    CHECK_FALSE(system.read(300 * kMiB).available_bytes);
    CHECK(system.read().available_bytes);
}

TEST_CASE("a limit that changes is seen at the next reading") {
    const System system;
    system.with_cgroups_v2();
    HostMemoryReader reader({system.root(), {}, {}});
    CHECK(reader.sample_host_memory().available_bytes == 4096 * kMiB);
    system.limit("/outer", std::to_string(1000 * kMiB), 900 * kMiB);
    CHECK(reader.sample_host_memory().available_bytes == 100 * kMiB);
}

TEST_CASE("another cgroup is found after some readings") {
    const System system;
    system.with_cgroups_v2();
    HostMemoryReader reader({system.root(), {}, {}});
    CHECK(reader.sample_host_memory().available_bytes == 4096 * kMiB);
    system.limit("/other", std::to_string(1000 * kMiB), 900 * kMiB);
    system.write("/proc/self/cgroup", "0::/other\n");
    MemoryReading reading;
    for (int i = 0; i < 20; ++i) reading = reader.sample_host_memory();
    CHECK(reading.available_bytes == 100 * kMiB);
}

TEST_CASE("a replacement file is read at each reading in MiB") {
    const System system;
    system.write("/mib", "9761\n");
    HostMemoryReader reader({{}, {}, system.root() + "/mib"});
    CHECK(reader.sample_host_memory() == MemoryReading{9761 * kMiB, MemoryBound::host});
    system.write("/mib", "12\n");
    CHECK(reader.sample_host_memory().available_bytes == 12 * kMiB);
    system.write("/mib", "many\n");
    CHECK_FALSE(reader.sample_host_memory().available_bytes);
    system.remove("/mib");
    CHECK_FALSE(reader.sample_host_memory().available_bytes);
}

TEST_CASE("this system gives a reading that can be true") {
    HostMemoryReader reader({{}, {}, {}});
    const MemoryReading reading = reader.sample_host_memory();
    REQUIRE(reading.available_bytes);
    CHECK(*reading.available_bytes > kMiB);
    CHECK(*reading.available_bytes < (std::uint64_t{1} << 50));
}

TEST_CASE("a pressure trigger is there or not and is silent at first") {
    PressureTrigger trigger;
    CHECK_FALSE(trigger.fired());
    PressureTrigger none("/proc/there/is/no/such/file");
    CHECK(none.descriptor() == -1);
    CHECK_FALSE(none.fired());
    PressureTrigger refused("/dev/null");  // takes any text and never has POLLPRI
    CHECK_FALSE(refused.fired());
}

// The sanitizers bring a heap of their own, which malloc_trim does not know.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("trimming the heap gives back what was freed") {
    const auto resident = [] {
        std::ifstream file("/proc/self/statm");
        std::int64_t total = 0;
        std::int64_t pages = 0;
        file >> total >> pages;
        return pages * 4096;
    };
    std::vector<std::unique_ptr<std::string>> small;
    for (int i = 0; i < 2000; ++i) small.push_back(std::make_unique<std::string>(20'000, 'x'));
    auto last = std::make_unique<std::string>(20'000, 'y');  // keeps the top of the heap
    small.clear();
    const std::int64_t before = resident();
    trim_heap();
    CHECK(before - resident() > 30'000'000);
    CHECK(last->front() == 'y');
}
#endif

}  // namespace strata
