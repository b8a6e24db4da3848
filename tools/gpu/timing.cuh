// How the programs of tools/gpu time work on the device, and the rate at which its memory is read,
// which their figures are shares of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include <cuda_runtime.h>

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda::timing {

// Milliseconds of one call of `work`, which is given its number: the median of the rounds of
// `calls` calls behind the first round.
inline double milliseconds(cudaStream_t stream, int calls, const std::function<void(int)>& work) {
    constexpr int kRounds = 7;
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    check(cudaEventCreate(&begin), "creating an event");
    check(cudaEventCreate(&end), "creating an event");
    std::vector<double> rounds;
    for (int round = 0; round <= kRounds; ++round) {
        check(cudaEventRecord(begin, stream), "timing");
        for (int i = 0; i < calls; ++i) work(i);
        check(cudaEventRecord(end, stream), "timing");
        check(cudaEventSynchronize(end), "timing");
        float time = 0.0F;
        check(cudaEventElapsedTime(&time, begin, end), "timing");
        if (round > 0) rounds.push_back(double(time) / calls);
    }
    std::sort(rounds.begin(), rounds.end());
    check(cudaEventDestroy(begin), "freeing an event");
    check(cudaEventDestroy(end), "freeing an event");
    return rounds[rounds.size() / 2];
}

// *out is written when any bit is set, so that nothing is left out by the compiler.
static __global__ void read_kernel(const uint4* from, std::int64_t count, unsigned* out) {
    unsigned all = 0;
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
#pragma unroll 8
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        const uint4 one = from[i];
        all |= one.x | one.y | one.z | one.w;
    }
    if (all != 0) *out = all;
}

// Bytes a millisecond of a buffer many times the second-level cache.
inline double read_rate(cudaStream_t stream) {
    constexpr std::size_t kBytes = std::size_t{4} << 30;
    int device = 0;
    int processors = 0;
    check(cudaGetDevice(&device), "current device");
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
          "asking for the device");
    char* room = nullptr;
    check(cudaMalloc(&room, kBytes), "allocating device memory");
    check(cudaMemset(room, 0, kBytes), "clearing device memory");
    const double time = milliseconds(stream, 3, [&](int) {
        read_kernel<<<processors * 8, 512, 0, stream>>>(reinterpret_cast<const uint4*>(room),
                                                        kBytes / sizeof(uint4),
                                                        reinterpret_cast<unsigned*>(room));
        check(cudaGetLastError(), "starting a kernel");
    });
    check(cudaFree(room), "freeing device memory");
    return double(kBytes) / time;
}

}  // namespace strata::cuda::timing
