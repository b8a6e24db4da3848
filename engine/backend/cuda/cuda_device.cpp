// A CUDA device as a Device: one stream for everything that is asked of it, one for long copies
// from the host (arrivals.hpp), and one of each thread that copies to the host beside them.
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include "engine/backend/cuda/cuda_ops.hpp"
#include "engine/backend/cuda/cuda_weight.hpp"
#include "engine/backend/cuda/device_memory.hpp"
#include "engine/backend/cuda/fault.hpp"
#include "strata/backend/device.hpp"

namespace strata {
namespace {

using cuda::check;

class CudaDevice final : public Device {
  public:
    CudaDevice(int number, const cudaDeviceProp& properties, cudaStream_t stream, bool exact,
               std::unique_ptr<cuda::LibraryProducts> library, std::string without)
        : number_(number),
          name_(properties.name),
          kernels_("sm_" + std::to_string(properties.major * 10 + properties.minor) +
                   (without.empty() ? "" : ", without cuBLAS: " + without)),
          stream_(stream),
          ops_(std::make_shared<cuda::CudaOps>(
              stream,
              cuda::Chip{properties.multiProcessorCount, properties.major * 10 + properties.minor},
              exact, std::move(library))) {}
    ~CudaDevice() override { static_cast<void>(cudaStreamSynchronize(stream_)); }

    DeviceFacts facts() const override {
        std::size_t free = 0;
        std::size_t total = 0;
        check(cudaMemGetInfo(&free, &total), "asking for free memory");
        return {name_, kernels_, free, 1};
    }
    Result<Buffer> allocate(std::size_t bytes) override {
        enter();
        auto buffer = cuda::allocate_zeroed(stream_, bytes);
        if (!buffer) return buffer;
        ops_->written_by_copy(buffer->address(), bytes);
        return lent(std::move(*buffer));
    }
    Result<Buffer> allocate_visible(std::size_t bytes) override {
        enter();
        auto buffer = cuda::allocate_on_host(bytes);
        if (!buffer) return buffer;
        return lent(std::move(*buffer));
    }
    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override {
        enter();
        return cuda::upload_weight(stream_, stored);
    }
    Result<Buffer> upload_values(const StoredTensor& stored) override {
        enter();
        return cuda::upload_weight_values(stream_, stored);
    }
    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override {
        copy(to, from_device, bytes, cudaMemcpyDeviceToHost);
    }
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override {
        copy(to_device, from, bytes, cudaMemcpyHostToDevice);
        ops_->written_by_copy(to_device, bytes);
    }
    void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) override {
        enter();
        ops_->arrivals().wait_for_all();
        check(cudaMemcpyAsync(to_device, from_device, bytes, cudaMemcpyDeviceToDevice, stream_),
              "a copy on the device");
        ops_->written_by_copy(to_device, bytes);
    }
    void synchronize() override {
        enter();
        ops_->arrivals().wait_for_all();
        check(cudaStreamSynchronize(stream_), "waiting for the device");
        ops_->settle();
    }
    // The word is seen microseconds before the stream is known to be done. Now and then the stream
    // is asked all the same: it may have failed, or have nothing that writes the word.
    void wait_for_change(const std::int32_t* word, std::int32_t unset) override {
        enter();
        constexpr int kLooks = 1 << 12;
        const volatile std::int32_t* seen = word;  // the device writes it
        for (int look = 1; *seen == unset; ++look) {
            if (look % kLooks == 0 && cudaStreamQuery(stream_) != cudaErrorNotReady) {
                return synchronize();
            }
        }
        std::atomic_thread_fence(std::memory_order_acquire);
        ops_->settle();
    }
    Ops& ops() override { return *ops_; }

    bool copies_aside() const override { return true; }
    void copy_to_host_aside(void* to, const void* from_device, std::size_t bytes) override {
        check(cudaSetDevice(number_), "choosing the device");
        check(cudaMemcpyAsync(to, from_device, bytes, cudaMemcpyDeviceToHost, cudaStreamPerThread),
              "a copy to the host beside others");
        check(cudaStreamSynchronize(cudaStreamPerThread), "a copy to the host beside others");
    }
    void start_copies_from_host(std::span<const HostCopy> copies,
                                std::span<const CopyStage> stages) override {
        enter();
        ops_->arrivals().start(copies, stages);
        for (const HostCopy& copy : copies) ops_->written_by_copy(copy.to_device, copy.bytes);
    }
    double finish_copies() override {
        enter();
        return ops_->arrivals().finish();
    }

    bool lock_pages(void* at, std::size_t bytes) override {
        if (cudaSetDevice(number_) == cudaSuccess &&
            cudaHostRegister(at, bytes, cudaHostRegisterPortable) == cudaSuccess) {
            return true;
        }
        static_cast<void>(cudaGetLastError());
        return false;
    }
    void unlock_pages(void* at, std::size_t) noexcept override {
        static_cast<void>(cudaHostUnregister(at));
    }

  private:
    // The runtime's current device is the thread's.
    void enter() {
        check(cudaSetDevice(number_), "choosing the device");
        ops_->flush();
    }
    // A call that is only recorded yet may use the buffer: it is enqueued first, then the buffer's
    // end waits for it.
    Buffer lent(Buffer buffer) {
        void* address = buffer.address();
        const std::size_t bytes = buffer.bytes();
        std::shared_ptr<void> owner(
            address,
            [held = std::move(buffer), ops = std::weak_ptr<cuda::CudaOps>(ops_)](void*) mutable {
                try {
                    if (const auto alive = ops.lock()) alive->flush();
                } catch (const DeviceFault&) {
                    // Told by the next call that may throw: owners end in destructors.
                }
                held = {};
            });
        return Buffer(address, bytes, std::move(owner));
    }
    // Pageable host memory may be reused as soon as the call returns, page-locked not: so the copy
    // is waited for.
    void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
        enter();
        ops_->arrivals().wait_for_all();
        if (kind == cudaMemcpyDeviceToHost && bytes <= kBounceBytes && pageable(to)) {
            const std::lock_guard lock(bounce_mutex_);
            check(cudaMemcpyAsync(bounce_.get(), from, bytes, kind, stream_), "a copy to the host");
            check(cudaStreamSynchronize(stream_), "a copy to the host");
            std::memcpy(to, bounce_.get(), bytes);
            return;
        }
        check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "a copy between host and device");
        check(cudaStreamSynchronize(stream_), "a copy between host and device");
    }

    static bool pageable(const void* at) {
        cudaPointerAttributes attributes{};
        check(cudaPointerGetAttributes(&attributes, at), "asking for the kind of memory");
        return attributes.type == cudaMemoryTypeUnregistered;
    }

    // Logits come out this way, once per token: the driver's own way for pageable memory takes
    // several times as long.
    static constexpr std::size_t kBounceBytes = std::size_t{1} << 20;
    struct HostFree {
        void operator()(void* at) const { static_cast<void>(cudaFreeHost(at)); }
    };
    static std::unique_ptr<void, HostFree> host_memory(std::size_t bytes) {
        void* at = nullptr;
        check(cudaMallocHost(&at, bytes), "allocating page-locked memory");
        return std::unique_ptr<void, HostFree>(at);
    }

    struct StreamOwner {
        cudaStream_t stream;
        ~StreamOwner() { static_cast<void>(cudaStreamDestroy(stream)); }
    };

    int number_;
    std::string name_;
    std::string kernels_;
    cudaStream_t stream_;
    StreamOwner owner_{stream_};
    std::mutex bounce_mutex_;
    std::unique_ptr<void, HostFree> bounce_ = host_memory(kBounceBytes);
    std::shared_ptr<cuda::CudaOps> ops_;
};

// Of the first device whose kernels are in this program.
constexpr int kComputeMajorMin = 7;
constexpr int kComputeMinorMin = 5;

}  // namespace

int cuda_device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());
    return 0;
}

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions& options) {
    const int count = cuda_device_count();
    if (count == 0) return refuse("no CUDA device (or no driver) on this machine");
    if (options.number < 0 || options.number >= count) {
        return refuse("CUDA device " + std::to_string(options.number) + " is not within 0 to " +
                      std::to_string(count - 1));
    }
    try {
        cudaDeviceProp properties{};
        check(cudaGetDeviceProperties(&properties, options.number), "asking for the device");
        if (properties.major * 10 + properties.minor < kComputeMajorMin * 10 + kComputeMinorMin) {
            return refuse(std::string(properties.name) + " has compute capability " +
                          std::to_string(properties.major) + "." +
                          std::to_string(properties.minor) + "; 7.5 or newer is needed");
        }
        check(cudaSetDevice(options.number), "choosing the device");
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
        std::string without;
        auto library = cuda::LibraryProducts::open(stream, without);
        return std::unique_ptr<Device>(
            std::make_unique<CudaDevice>(options.number, properties, stream, options.exact,
                                         std::move(library), std::move(without)));
    } catch (const DeviceFault& fault) {
        return refuse(std::string("CUDA device ") + std::to_string(options.number) + ": " +
                      fault.what());
    }
}

}  // namespace strata
