// The CPU as a Device: its memory is the process's, its weights are packed for its kernels.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cpu/aligned_bytes.hpp"
#include "engine/backend/cpu/blocks.hpp"
#include "engine/backend/cpu/cpu_ops.hpp"
#include "engine/backend/cpu/isa.hpp"
#include "engine/backend/cpu/packed_weight.hpp"
#include "engine/backend/cpu/thread_pool.hpp"
#include "strata/backend/device.hpp"

namespace strata {
namespace {

class CpuDevice final : public Device {
  public:
    CpuDevice(int threads, Isa isa, bool exact)
        : isa_(isa), pool_(threads), ops_(pool_, isa, exact) {}

    DeviceFacts facts() const override { return {"cpu", isa_name(isa_), 0, pool_.threads()}; }

    Result<Buffer> allocate(std::size_t bytes) override {
        auto memory = std::make_shared<AlignedBytes>(bytes);
        if (bytes > 0 && !*memory) {
            return refuse_memory("no memory for a buffer of " + std::to_string(bytes) + " bytes");
        }
        return Buffer(memory->get(), bytes, memory);
    }

    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override {
        return pack_weight(stored, isa_, &pool_);
    }

    Result<Buffer> upload_values(const StoredTensor& stored) override {
        const BlockShape block = block_shape(stored.type);
        const std::size_t elements =
            static_cast<std::size_t>(stored.cols * stored.rows * stored.experts);
        if (static_cast<std::size_t>(stored.cols) % block.elements != 0 ||
            elements / block.elements * block.bytes != stored.bytes.size()) {
            return refuse("a tensor of " + std::to_string(elements) + " " +
                          element_type_name(stored.type) + " elements cannot have " +
                          std::to_string(stored.bytes.size()) + " bytes");
        }
        Result<Buffer> out = allocate(elements * sizeof(float));
        if (out.ok()) decode_blocks(stored.type, stored.bytes.data(), elements, out->f32());
        return out;
    }

    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override {
        std::memcpy(to, from_device, bytes);
    }
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override {
        std::memcpy(to_device, from, bytes);
    }
    void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) override {
        std::memcpy(to_device, from_device, bytes);
    }
    void synchronize() override {}
    Ops& ops() override { return ops_; }

  private:
    Isa isa_;
    ThreadPool pool_;
    CpuOps ops_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_cpu_device(const CpuDeviceOptions& options) {
    if (options.threads < 1 || options.threads > ThreadPool::kThreadsMax) {
        return refuse("threads: " + std::to_string(options.threads) + " is not within 1 to " +
                      std::to_string(ThreadPool::kThreadsMax));
    }
    const Result<Isa> isa = choose_isa(options.kernels);
    if (!isa.ok()) return isa.failure();
    return std::unique_ptr<Device>(
        std::make_unique<CpuDevice>(options.threads, *isa, options.exact));
}

}  // namespace strata
