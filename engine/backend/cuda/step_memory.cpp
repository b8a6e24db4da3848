#include "engine/backend/cuda/step_memory.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/backend/cuda/fault.hpp"
#include "engine/backend/cuda/launch/step.hpp"

namespace strata::cuda {
namespace {

// Rooms grow by doubling from these, so that a conversation rarely moves the block.
constexpr std::size_t kIdsMin = 512;
constexpr std::size_t kPagesMin = 1024;
constexpr std::size_t kCopyPiece = 16;

std::size_t doubled(std::size_t room, std::size_t least, std::size_t wanted) {
    room = std::max(room, least);
    while (room < wanted) room *= 2;
    return room;
}

// Of head, pages and ids, in whole pieces of the copy.
std::size_t block_bytes(std::size_t pages, std::size_t ids) {
    const std::size_t bytes = sizeof(StepHead) + pages * sizeof(void*) + ids * sizeof(TokenId);
    return (bytes + kCopyPiece - 1) / kCopyPiece * kCopyPiece;
}

}  // namespace

StepMemory::~StepMemory() {
    if (host_ != nullptr) static_cast<void>(cudaFreeHost(host_));
    if (device_ != nullptr) static_cast<void>(cudaFree(device_));
}

void StepMemory::grow(std::size_t ids, std::size_t pages) {
    check(cudaStreamSynchronize(stream_), "waiting for the device");
    id_room_ = doubled(id_room_, kIdsMin, ids);
    page_room_ = doubled(page_room_, kPagesMin, pages);
    if (host_ != nullptr) check(cudaFreeHost(host_), "freeing host memory");
    if (device_ != nullptr) check(cudaFree(device_), "freeing device memory");
    host_ = nullptr;
    device_ = nullptr;
    const std::size_t bytes = block_bytes(page_room_, id_room_);
    void* host = nullptr;
    void* device = nullptr;
    if (cudaMallocHost(&host, bytes) != cudaSuccess) throw std::bad_alloc();
    host_ = static_cast<std::byte*>(host);
    if (cudaMalloc(&device, bytes) != cudaSuccess) throw std::bad_alloc();
    device_ = static_cast<std::byte*>(device);
    view_.head = reinterpret_cast<const StepHead*>(device_);
    view_.pages = reinterpret_cast<void* const*>(device_ + sizeof(StepHead));
    view_.ids =
        reinterpret_cast<const TokenId*>(device_ + sizeof(StepHead) + page_room_ * sizeof(void*));
}

void StepMemory::write(const Step& step) {
    if (step.ids.size() > id_room_ || step.pages.size() > page_room_) {
        grow(step.ids.size(), step.pages.size());
    }
    if (!taken_) check(cudaStreamSynchronize(stream_), "waiting for the device");
    taken_ = false;
    const StepHead head{step.first, static_cast<std::int64_t>(step.ids.size()), step.running_state};
    std::memcpy(host_, &head, sizeof head);
    std::byte* pages = host_ + sizeof head;
    if (!step.pages.empty()) std::memcpy(pages, step.pages.data(), step.pages.size_bytes());
    std::byte* ids = pages + page_room_ * sizeof(void*);
    std::memcpy(ids, step.ids.data(), step.ids.size_bytes());
    used_ = block_bytes(page_room_, step.ids.size());
}

void StepMemory::take() const {
    launch_take_step(stream_, host_, device_, used_);
}

}  // namespace strata::cuda
