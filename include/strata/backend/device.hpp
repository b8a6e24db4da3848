// One device: memory, copies, weights, and the operations on them. CPU and CUDA implement the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"

namespace strata {

class Ops;

struct DeviceFacts {
    std::string name;            // "cpu" or the GPU's name
    std::string kernels;         // which kernels run: scalar, avx2, avx512-vnni, sm_90 ...
    std::size_t free_bytes = 0;  // memory still free on the device; 0 = unknown
    int threads = 0;
};

// Host memory to the device.
struct HostCopy {
    void* to_device = nullptr;
    const void* from = nullptr;
    std::size_t bytes = 0;
};

// Of a list of such copies: once the first `copies` of them have happened, all is there that the
// coming operations read, but for the bytes of pages from `page_bytes` on (from each page's start).
struct CopyStage {
    std::size_t copies = 0;
    std::size_t page_bytes = 0;
};

class Device {
  public:
    virtual ~Device() = default;
    virtual DeviceFacts facts() const = 0;
    // Zeroed memory, aligned to 64 bytes.
    virtual Result<Buffer> allocate(std::size_t bytes) = 0;
    // The same for a few bytes that the host reads and writes where they are, without a copy:
    // behind synchronize(), and before what is asked of ops() next.
    virtual Result<Buffer> allocate_visible(std::size_t bytes) { return allocate(bytes); }
    // Takes a stored tensor over into the device's own layout; the bytes may be unmapped
    // afterwards.
    virtual Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) = 0;
    // The same for what is used value by value (norms, biases, convolutions): f32, in file order.
    virtual Result<Buffer> upload_values(const StoredTensor& stored) = 0;
    virtual void copy_to_host(void* to, const void* from_device, std::size_t bytes) = 0;
    virtual void copy_from_host(void* to_device, const void* from, std::size_t bytes) = 0;
    virtual void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) = 0;
    // Waits until everything asked of ops() so far has happened.
    virtual void synchronize() = 0;
    // The same, where the last thing asked of ops() writes a visible word: it may return as soon as
    // the word (allocate_visible) is no longer `unset`.
    virtual void wait_for_change(const std::int32_t* word, std::int32_t unset) {
        static_cast<void>(word);
        static_cast<void>(unset);
        synchronize();
    }
    virtual Ops& ops() = 0;

    // True: it copies by itself, while ops() and the host's processors work. Then the next three
    // and lock_pages() may be called where it says so; else they wait like any other copy.
    virtual bool copies_aside() const { return false; }
    // On any thread; the bytes are there when it returns. What wrote them on the device has
    // happened (synchronize()), and nothing writes there meanwhile.
    virtual void copy_to_host_aside(void* to, const void* from_device, std::size_t bytes) {
        copy_to_host(to, from_device, bytes);
    }
    // On the thread of ops(). Until finish_copies() nothing of the host's side may be written or
    // freed. What is asked of the device meanwhile happens behind the copies, an operation behind
    // the first stage that brings what it reads; no stages: behind all of them.
    virtual void start_copies_from_host(std::span<const HostCopy> copies,
                                        std::span<const CopyStage> stages) {
        static_cast<void>(stages);
        for (const HostCopy& copy : copies) copy_from_host(copy.to_device, copy.from, copy.bytes);
    }
    // Waits for them. When they had ended: ms since they were started, 0 = before that returned.
    virtual double finish_copies() { return 0; }

    // Makes host memory fast to copy from and to, for a device that copies by itself (page-locked).
    // False: not needed, or refused; the memory is used as it is then. On any thread.
    virtual bool lock_pages(void* /*at*/, std::size_t /*bytes*/) { return false; }
    // Of what lock_pages() locked; before it is unmapped.
    virtual void unlock_pages(void* /*at*/, std::size_t /*bytes*/) noexcept {}
};

// Host memory that is page-locked, where the device wants that, for as long as this object.
class LockedPages {
  public:
    LockedPages(Device& device, void* at, std::size_t bytes)
        : device_(device), at_(device.lock_pages(at, bytes) ? at : nullptr), bytes_(bytes) {}
    ~LockedPages() {
        if (at_ != nullptr) device_.unlock_pages(at_, bytes_);
    }
    LockedPages(const LockedPages&) = delete;
    LockedPages& operator=(const LockedPages&) = delete;

  private:
    Device& device_;
    void* at_;
    std::size_t bytes_;
};

struct CpuDeviceOptions {
    int threads = 1;
    std::string kernels = "auto";  // auto, scalar, avx2, avx512
    // A row's results do not depend on which rows before it are in the same step (chunks of any
    // size give the same bits), at the price of some speed.
    bool exact = false;
};
Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options);

// Only in builds that found CUDA's compiler (STRATA_CUDA).
struct CudaDeviceOptions {
    int number = 0;      // 0 .. cuda_device_count() - 1
    bool exact = false;  // as CpuDeviceOptions::exact; also no library's products
};
// 0 where there is no device or no driver.
int cuda_device_count();
Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options);

}  // namespace strata
