// Protects the GPU readings: what the driver says arrives in our units, what it refuses is absent,
// a machine without it has no GPU, and nobody waits for it.
#include "serve/monitor/hardware_gpu.hpp"

#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

namespace strata::serve {
namespace {

constexpr std::chrono::seconds kPatience{20};

std::vector<GpuReading> first_reading(GpuWatch& watch) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::vector<GpuReading> reading = watch.read();
    while (reading.empty() && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        reading = watch.read();
    }
    return reading;
}

}  // namespace

TEST_CASE("The GPUs of the driver arrive in bytes and shares and watts") {
    GpuWatch watch(STRATA_FAKE_NVML);
    const auto gpus = first_reading(watch);
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[0].name == "Fake GPU");
    CHECK(gpus[0].memory_total_bytes == 80LL << 30U);
    CHECK(gpus[0].memory_used_bytes == 20LL << 30U);
    CHECK(*gpus[0].load_share == Approx(0.73));
    CHECK(*gpus[0].power_watts == Approx(412.5));
    CHECK(gpus[0].temperature_c == 61);
}

TEST_CASE("What a driver refuses to say of a GPU is absent") {
    const auto nvml = Nvml::open(STRATA_FAKE_NVML);
    REQUIRE(nvml);
    const auto gpus = nvml->read();
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[1].name == "Silent");
    CHECK_FALSE(gpus[1].memory_total_bytes);
    CHECK_FALSE(gpus[1].load_share);
    CHECK_FALSE(gpus[1].power_watts);
    CHECK(gpus[1].temperature_c == 61);
}

TEST_CASE("A machine without the library has no GPU") {
    CHECK_FALSE(Nvml::open("libno-such-library.so.1"));
    CHECK_FALSE(Nvml::open("libc.so.6"));  // a library without the functions
    GpuWatch watch("libno-such-library.so.1");
    for (int i = 0; i < 5; ++i) CHECK(watch.read().empty());
}

TEST_CASE("A watch that nobody asked ends at once") {
    const auto start = std::chrono::steady_clock::now();
    { GpuWatch watch(STRATA_FAKE_NVML); }
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}

}  // namespace strata::serve
