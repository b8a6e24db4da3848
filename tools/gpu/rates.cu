// What this machine can do at most: the rates that figures of tools/gpu/check.sh are shares of.
//
//   read, copy  device memory, a buffer many times the second-level cache; a copy counts both ways
//   to device, to host  page-locked memory, one copy of 1 GiB at a time (PCIe)
//   products    bf16 matrices by cuBLAS, f32 sums, in the shapes of 4,096 tokens of an 8B model
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#include "engine/backend/cuda/fault.hpp"
#include "engine/backend/cuda/library_products.hpp"
#include "tools/gpu/timing.cuh"

namespace strata::cuda {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 30;
constexpr std::size_t kHostBytes = std::size_t{1} << 30;

void say(const char* what, double rate, const char* unit) {
    std::printf("%-10s %8.1f %s\n", what, rate, unit);
}

void memory_rates(cudaStream_t stream) {
    char* room = nullptr;
    char* host = nullptr;
    check(cudaMalloc(&room, 2 * kBytes), "allocating device memory");
    check(cudaMemset(room, 0, 2 * kBytes), "clearing device memory");
    check(cudaMallocHost(&host, kHostBytes), "allocating page-locked memory");
    std::fill_n(host, kHostBytes, char{0});
    const auto copied = [&](void* to, const void* from, std::size_t bytes) {
        return timing::milliseconds(stream, 2, [=](int) {
            check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying");
        });
    };
    const double copy = copied(room, room + kBytes, kBytes);
    const double to_device = copied(room, host, kHostBytes);
    const double to_host = copied(host, room, kHostBytes);
    constexpr double kMega = 1.0e6;  // bytes a millisecond into GB/s
    say("read", timing::read_rate(stream) / kMega, "GB/s");
    say("copy", 2.0 * double(kBytes) / copy / kMega, "GB/s");
    say("to device", double(kHostBytes) / to_device / kMega, "GB/s");
    say("to host", double(kHostBytes) / to_host / kMega, "GB/s");
    check(cudaFreeHost(host), "freeing host memory");
    check(cudaFree(room), "freeing device memory");
}

void product_rate(cudaStream_t stream) {
    std::string why;
    const auto library = LibraryProducts::open(stream, why);
    if (library == nullptr) {
        std::printf("%-10s not measured: %s\n", "products", why.c_str());
        return;
    }
    constexpr std::int64_t kTokens = 4096;
    constexpr std::int64_t kWidth = 4096;
    constexpr std::int64_t kHidden = 12288;
    constexpr std::size_t kHalf = 2;
    char* x = nullptr;
    char* weight = nullptr;
    float* y = nullptr;
    check(cudaMalloc(&x, kTokens * kWidth * kHalf), "allocating device memory");
    check(cudaMalloc(&weight, kHidden * kWidth * kHalf), "allocating device memory");
    check(cudaMalloc(&y, kTokens * kHidden * sizeof(float)), "allocating device memory");
    // Small numbers that are not all alike: a chip that multiplies zeros takes less power.
    std::vector<std::uint16_t> numbers(kHidden * kWidth);
    std::uint32_t state = 1;
    for (std::uint16_t& one : numbers) {
        state = state * 1664525U + 1013904223U;
        one = static_cast<std::uint16_t>((state >> 16 & 0x80ffU) | 0x3d00U);
    }
    check(cudaMemcpy(x, numbers.data(), kTokens * kWidth * kHalf, cudaMemcpyDefault), "copying");
    check(cudaMemcpy(weight, numbers.data(), kHidden * kWidth * kHalf, cudaMemcpyDefault),
          "copying");
    const double time = timing::milliseconds(stream, 20, [&](int) {
        library->multiply(MatrixForm::bf16, weight, kHidden, x, kTokens, kWidth, 1.0F, false, y,
                          kHidden);
    });
    constexpr double kGiga = 1.0e9;  // operations a millisecond into TFLOP/s
    say("products", 2.0 * double(kTokens) * double(kWidth) * double(kHidden) / time / kGiga,
        "TFLOP/s");
    check(cudaFree(x), "freeing device memory");
    check(cudaFree(weight), "freeing device memory");
    check(cudaFree(y), "freeing device memory");
}

}  // namespace
}  // namespace strata::cuda

int main() {
    try {
        cudaStream_t stream = nullptr;
        strata::cuda::check(cudaStreamCreate(&stream), "creating a stream");
        strata::cuda::memory_rates(stream);
        strata::cuda::product_rate(stream);
        strata::cuda::check(cudaStreamDestroy(stream), "freeing a stream");
    } catch (const std::exception& fault) {
        std::fprintf(stderr, "rates: %s\n", fault.what());
        return 1;
    }
    return 0;
}
