#include "engine/backend/cuda/device_memory.hpp"

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda {

Result<Buffer> allocate_zeroed(cudaStream_t stream, std::size_t bytes) {
    if (bytes == 0) return Buffer();
    void* address = nullptr;
    const cudaError_t status = cudaMalloc(&address, bytes);
    if (status == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());  // it was answered: the next call must not see it
        std::size_t free = 0;
        std::size_t total = 0;
        static_cast<void>(cudaMemGetInfo(&free, &total));
        return refuse_memory("no device memory for " + std::to_string(bytes) + " bytes: " +
                             std::to_string(free) + " of " + std::to_string(total) + " are free");
    }
    check(status, "allocating device memory");
    // cudaFree waits for the device: nothing that still runs loses its memory.
    std::shared_ptr<void> owner(address, [](void* at) { static_cast<void>(cudaFree(at)); });
    check(cudaMemsetAsync(address, 0, bytes, stream), "clearing device memory");
    return Buffer(address, bytes, std::move(owner));
}

Result<Buffer> allocate_on_host(std::size_t bytes) {
    if (bytes == 0) return Buffer();
    void* address = nullptr;
    const cudaError_t status =
        cudaHostAlloc(&address, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (status == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        return refuse_memory("no page-locked memory for " + std::to_string(bytes) + " bytes");
    }
    check(status, "allocating page-locked memory");
    std::shared_ptr<void> owner(address, [](void* at) {
        static_cast<void>(cudaDeviceSynchronize());  // a kernel may still write there
        static_cast<void>(cudaFreeHost(at));
    });
    std::memset(address, 0, bytes);
    return Buffer(address, bytes, std::move(owner));
}

void* ScratchMemory::take(ScratchUse use, std::size_t bytes) {
    Buffer& block = blocks_[static_cast<std::size_t>(use)];
    if (block.bytes() < bytes) {
        Result<Buffer> larger = allocate_zeroed(stream_, bytes);
        if (!larger) throw std::bad_alloc();
        outgrown_.push_back(std::move(block));
        block = std::move(larger).value();
    }
    return block.address();
}

}  // namespace strata::cuda
