// What the tests of the operations share: the devices they run on, rows and weights on a device,
// numbers, and f64 versions of the functions that formulas use. Everything goes through Device, as
// for a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/backend/ops.hpp"

namespace strata::ops_fixture {

struct NamedDevice {
    std::string name;
    std::unique_ptr<Device> device;
    bool halves = false;  // steps of many rows may compute in half precision
};
// One for every instruction set of this machine, with one thread and with three; and a CUDA device
// where there is one.
// `exact`: CpuDeviceOptions.
std::vector<NamedDevice> devices(bool exact = false);

// The same numbers in every run, spread evenly over (-size, size).
class Numbers {
  public:
    explicit Numbers(std::uint64_t seed) : bits_(seed * 2 + 1) {}
    float next(float size = 1.0F);
    std::vector<float> list(std::int64_t count, float size = 1.0F);

  private:
    std::uint64_t bits_;
};

// Rows that live on a device for as long as this object.
class DeviceRows {
  public:
    DeviceRows(Device& device, std::int64_t rows, std::int64_t cols);
    DeviceRows(Device& device, const std::vector<float>& values, std::int64_t cols);
    operator Rows() const { return {buffer_.f32(), rows_, cols_}; }
    const float* values() const { return buffer_.f32(); }
    std::vector<float> read() const;

  private:
    Device& device_;
    std::int64_t rows_;
    std::int64_t cols_;
    Buffer buffer_;
};

// An f32 weight of experts x rows x cols values.
std::unique_ptr<Weight> upload(Device& device, const std::vector<float>& values, std::int64_t cols,
                               std::int64_t rows, std::int64_t experts = 1);

Buffer allocate(Device& device, std::size_t bytes);

// |got - wanted| <= tolerance * max(1, |wanted|) for every value.
void check_close(const std::vector<float>& got, const std::vector<double>& wanted,
                 double tolerance);

inline double sigmoid(double x) {
    return 1.0 / (1.0 + std::exp(-x));
}
inline double silu(double x) {
    return x * sigmoid(x);
}

// RMS(x, gain) of ops.hpp.
std::vector<double> rms(std::span<const double> x, std::span<const float> gain, double epsilon);

// Row `row` of values[rows][cols] in f64.
std::vector<double> row_of(const std::vector<float>& values, std::int64_t row, std::int64_t cols);

// y = W x for W [rows][x.size()] at `weight`.
std::vector<double> times(std::span<const float> weight, std::span<const double> x);

}  // namespace strata::ops_fixture
