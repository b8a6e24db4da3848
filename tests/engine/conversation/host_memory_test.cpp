// How much RAM can still be given: the arithmetic against a slow second version on random trees,
// its edges, and the kernel's files as they are written.
#include "strata/core/host_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

#include <catch2/catch.hpp>

namespace strata {
namespace {

using Wide = __int128;

// The definition, one limit at a time, in numbers that cannot overflow or wrap.
std::optional<std::uint64_t> plainly(const HostMemoryFigures& f) {
    if (!f.mem_available_bytes) return {};
    std::vector<Wide> room{static_cast<Wide>(*f.mem_available_bytes)};
    for (const CgroupMemory& each : f.cgroups) {
        for (const auto& limit : {each.max_bytes, each.high_bytes}) {
            if (!limit) continue;
            if (!each.usage_bytes) return {};
            const Wide back = std::max(Wide{0}, static_cast<Wide>(each.reclaimable_bytes) -
                                                    static_cast<Wide>(f.held_file_bytes));
            const Wide used = std::max(Wide{0}, static_cast<Wide>(*each.usage_bytes) - back);
            room.push_back(static_cast<Wide>(*limit) - used);
        }
    }
    if (f.own_limit_bytes) {
        if (!f.resident_bytes) return {};
        room.push_back(static_cast<Wide>(*f.own_limit_bytes) -
                       static_cast<Wide>(*f.resident_bytes));
    }
    const Wide least = *std::min_element(room.begin(), room.end());
    return static_cast<std::uint64_t>(std::max(Wide{0}, least));
}

struct Dice {
    std::mt19937_64 engine;

    bool chance(unsigned percent) { return engine() % 100 < percent; }
    // Of every size, extremes and equal values often.
    std::uint64_t bytes() {
        switch (engine() % 8) {
            case 0:
                return 0;
            case 1:
                return UINT64_MAX;
            case 2:
                return engine() % 4;
            case 3:
                return engine();
            default:
                return engine() % (std::uint64_t{1} << 36);
        }
    }
    std::optional<std::uint64_t> maybe(unsigned percent) {
        return chance(percent) ? std::optional(bytes()) : std::nullopt;
    }
};

}  // namespace

TEST_CASE("a hundred thousand random cgroup trees read as the definition says") {
    Dice dice{std::mt19937_64(20260930)};
    for (int tree = 0; tree < 100'000; ++tree) {
        HostMemoryFigures figures;
        figures.mem_available_bytes = dice.maybe(97);
        for (std::uint64_t depth = dice.engine() % 7; depth > 0; --depth) {
            figures.cgroups.push_back(
                {dice.maybe(50), dice.maybe(30), dice.maybe(97), dice.bytes()});
        }
        if (dice.chance(50)) figures.held_file_bytes = dice.bytes();
        figures.own_limit_bytes = dice.maybe(30);
        figures.resident_bytes = dice.maybe(95);
        const auto wanted = plainly(figures);
        const MemoryReading reading = read_available(figures);
        if (reading.available_bytes != wanted) {
            INFO("tree " << tree);
            REQUIRE(reading.available_bytes == wanted);
        }
    }
}

TEST_CASE("the least limit is named") {
    HostMemoryFigures figures;
    figures.mem_available_bytes = 1000;
    CHECK(read_available(figures) == MemoryReading{1000, MemoryBound::host});
    figures.cgroups = {{900, std::nullopt, 100, 0}, {2000, 600, 100, 50}};
    CHECK(read_available(figures) == MemoryReading{550, MemoryBound::cgroup_high});
    figures.cgroups[0].usage_bytes = 700;
    CHECK(read_available(figures) == MemoryReading{200, MemoryBound::cgroup_max});
    figures.own_limit_bytes = 300;
    figures.resident_bytes = 150;
    CHECK(read_available(figures) == MemoryReading{150, MemoryBound::own_limit});
    figures.resident_bytes = 301;
    CHECK(read_available(figures).available_bytes == 0);
}

TEST_CASE("file cache is counted back but not what this process holds of it") {
    HostMemoryFigures figures;
    figures.mem_available_bytes = 10'000;
    figures.cgroups = {{1000, std::nullopt, 900, 600}};
    CHECK(read_available(figures).available_bytes == 700);
    figures.held_file_bytes = 500;
    CHECK(read_available(figures).available_bytes == 200);
    figures.held_file_bytes = 700;
    CHECK(read_available(figures).available_bytes == 100);
}

TEST_CASE("what cannot be read is unknown and an absent limit is none") {
    HostMemoryFigures figures;
    CHECK_FALSE(read_available(figures).available_bytes);
    figures.mem_available_bytes = 100;
    figures.cgroups = {{std::nullopt, std::nullopt, std::nullopt, 0}};
    CHECK(read_available(figures).available_bytes == 100);
    figures.cgroups[0].max_bytes = 1000;
    CHECK_FALSE(read_available(figures).available_bytes);
    figures.cgroups.clear();
    figures.own_limit_bytes = 1000;
    CHECK_FALSE(read_available(figures).available_bytes);
}

TEST_CASE("meminfo and status give up their kilobytes") {
    CHECK(parse_mem_available("MemTotal:        8013840 kB\nMemFree:          120000 kB\n"
                              "MemAvailable:    2621440 kB\nBuffers:  1 kB\n") ==
          2621440ULL * 1024);
    CHECK_FALSE(parse_mem_available("MemTotal: 1 kB\nMemFree: 1 kB\n"));
    CHECK_FALSE(parse_mem_available("MemAvailable: lots kB\n"));
    CHECK_FALSE(parse_mem_available("MemAvailable: 12\n"));
    CHECK_FALSE(parse_mem_available("MemAvailable: 99999999999999999999 kB\n"));
    CHECK_FALSE(parse_mem_available("MemAvailable: 18446744073709551615 kB\n"));
    CHECK_FALSE(parse_mem_available(""));
    CHECK(parse_resident("Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\n") == 512U * 1024);
}

TEST_CASE("cgroup files give up numbers and limits") {
    CHECK(parse_cgroup_number("4096\n") == 4096U);
    CHECK_FALSE(parse_cgroup_number(""));
    CHECK_FALSE(parse_cgroup_number("-1\n"));
    CHECK(parse_cgroup_limit("1073741824\n") == 1073741824U);
    CHECK_FALSE(parse_cgroup_limit("max\n"));
    CHECK_FALSE(parse_cgroup_limit("9223372036854771712\n"));
    CHECK_FALSE(parse_cgroup_limit("4611686018427387904\n"));
    CHECK(parse_cgroup_limit("4611686018427387903\n") == 4611686018427387903U);
    const std::string_view stat =
        "anon 100\nfile 7000\nactive_file 4000\ninactive_file 3000\nslab_reclaimable 50\n"
        "total_inactive_file 900\n";
    CHECK(parse_reclaimable(stat, CgroupVersion::v2) == 3050);
    CHECK(parse_reclaimable(stat, CgroupVersion::v1) == 900);
    CHECK(parse_reclaimable("inactive_file x\n", CgroupVersion::v2) == 0);
}

TEST_CASE("a process finds its cgroup and every ancestor") {
    const std::string_view v2_mounts =
        "22 1 0:21 / /proc rw - proc proc rw\n"
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    CHECK(cgroup_places("0::/user.slice/session.scope\n", v2_mounts) ==
          std::vector<CgroupPlace>{{CgroupVersion::v2,
                                    {"/sys/fs/cgroup/user.slice/session.scope",
                                     "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}}});
    CHECK(cgroup_places("0::/\n", v2_mounts) ==
          std::vector<CgroupPlace>{{CgroupVersion::v2, {"/sys/fs/cgroup"}}});

    const std::string_view hybrid =
        "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n"
        "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    CHECK(cgroup_places("5:memory:/jobs/a:b\n3:cpu,cpuacct:/\n0::/jobs\n", hybrid) ==
          std::vector<CgroupPlace>{
              {CgroupVersion::v1,
               {"/sys/fs/cgroup/memory/jobs/a:b", "/sys/fs/cgroup/memory/jobs",
                "/sys/fs/cgroup/memory"}},
              {CgroupVersion::v2, {"/sys/fs/cgroup/unified/jobs", "/sys/fs/cgroup/unified"}}});
}

TEST_CASE("inside a container only what is mounted is seen") {
    const std::string_view mounts =
        "33 30 0:29 /docker/abc /sys/fs/cgroup ro - cgroup cgroup rw,memory\n";
    CHECK(cgroup_places("4:memory:/docker/abc/inner\n", mounts)[0].directories ==
          std::vector<std::string>{"/sys/fs/cgroup/inner", "/sys/fs/cgroup"});
    CHECK(cgroup_places("4:memory:/docker/abc\n", mounts)[0].directories ==
          std::vector<std::string>{"/sys/fs/cgroup"});
    CHECK(cgroup_places("4:memory:/docker/abcd\n", mounts)[0].directories ==
          std::vector<std::string>{"/sys/fs/cgroup"});
    CHECK(cgroup_places("4:memory:/../other\n", "33 30 0:29 / /cg rw - cgroup c rw,memory\n")[0]
              .directories == std::vector<std::string>{"/cg"});
    CHECK(cgroup_places("4:memory:/x\n", "33 30 0:29 / /a\\040b rw - cgroup c rw,memory\n")[0]
              .directories == std::vector<std::string>{"/a b/x", "/a b"});
    CHECK(cgroup_places("4:memory:/x\n", "garbage\n - \n33 30 - cgroup\n").empty());
    CHECK(cgroup_places("", mounts).empty());
}

}  // namespace strata
