#include "tests/engine/backend/ops_fixture.hpp"

#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

namespace strata::ops_fixture {

std::vector<NamedDevice> devices(bool exact) {
    std::vector<NamedDevice> out;
    for (const std::string kernels : {"scalar", "avx2", "avx512"}) {
        for (const int threads : {1, 3}) {
            auto device = make_cpu_device({threads, kernels, exact});
            if (!device.ok()) continue;  // this machine does not have the instruction set
            out.push_back({kernels + " x " + std::to_string(threads) + (exact ? ", exact" : ""),
                           std::move(*device)});
        }
    }
    REQUIRE(out.size() >= 2);
    if (cuda_device_count() > 0) {
        auto device = make_cuda_device({0, exact});
        if (!device.ok()) FAIL(device.error().text);
        out.push_back({std::string("cuda") + (exact ? ", exact" : ""), std::move(*device), !exact});
    }
    return out;
}

float Numbers::next(float size) {
    bits_ = bits_ * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX constants
    const double unit = static_cast<double>(bits_ >> 11) * 0x1.0p-53;
    return static_cast<float>((2.0 * unit - 1.0) * static_cast<double>(size));
}

std::vector<float> Numbers::list(std::int64_t count, float size) {
    std::vector<float> out(static_cast<std::size_t>(count));
    for (float& value : out) value = next(size);
    return out;
}

Buffer allocate(Device& device, std::size_t bytes) {
    auto buffer = device.allocate(bytes);
    REQUIRE(buffer.ok());
    return *buffer;
}

DeviceRows::DeviceRows(Device& device, std::int64_t rows, std::int64_t cols)
    : device_(device),
      rows_(rows),
      cols_(cols),
      buffer_(allocate(device, static_cast<std::size_t>(rows * cols) * sizeof(float))) {}

DeviceRows::DeviceRows(Device& device, const std::vector<float>& values, std::int64_t cols)
    : DeviceRows(device, static_cast<std::int64_t>(values.size()) / cols, cols) {
    device.copy_from_host(buffer_.address(), values.data(), values.size() * sizeof(float));
}

std::vector<float> DeviceRows::read() const {
    std::vector<float> out(static_cast<std::size_t>(rows_ * cols_));
    device_.copy_to_host(out.data(), buffer_.address(), out.size() * sizeof(float));
    device_.synchronize();
    return out;
}

std::unique_ptr<Weight> upload(Device& device, const std::vector<float>& values, std::int64_t cols,
                               std::int64_t rows, std::int64_t experts) {
    REQUIRE(static_cast<std::int64_t>(values.size()) == cols * rows * experts);
    auto weight = device.upload(
        {ElementType::f32, cols, rows, experts, std::as_bytes(std::span<const float>(values))});
    REQUIRE(weight.ok());
    return std::move(*weight);
}

void check_close(const std::vector<float>& got, const std::vector<double>& wanted,
                 double tolerance) {
    REQUIRE(got.size() == wanted.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::abs(static_cast<double>(got[i]) - wanted[i]);
        if (error <= tolerance * std::max(1.0, std::abs(wanted[i]))) continue;
        if (wrong == 0) {
            CAPTURE(i, got[i], wanted[i]);
            CHECK(error <= tolerance);
        }
        ++wrong;
    }
    CHECK(wrong == 0);
}

std::vector<double> rms(std::span<const double> x, std::span<const float> gain, double epsilon) {
    double squares = 0.0;
    for (const double value : x) squares += value * value;
    const double divisor = std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
    std::vector<double> out;
    for (std::size_t i = 0; i < x.size(); ++i) {
        out.push_back(x[i] / divisor * static_cast<double>(gain[i]));
    }
    return out;
}

std::vector<double> row_of(const std::vector<float>& values, std::int64_t row, std::int64_t cols) {
    const auto first = values.begin() + row * cols;
    return {first, first + cols};
}

std::vector<double> times(std::span<const float> weight, std::span<const double> x) {
    std::vector<double> out(weight.size() / x.size(), 0.0);
    for (std::size_t r = 0; r < out.size(); ++r) {
        for (std::size_t c = 0; c < x.size(); ++c) {
            out[r] += static_cast<double>(weight[r * x.size() + c]) * x[c];
        }
    }
    return out;
}

}  // namespace strata::ops_fixture
