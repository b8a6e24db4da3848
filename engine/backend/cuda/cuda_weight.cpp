#include "engine/backend/cuda/cuda_weight.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "engine/backend/cuda/device_memory.hpp"
#include "engine/backend/cuda/fault.hpp"
#include "engine/backend/cuda/launch/weights.hpp"

namespace strata::cuda {
namespace {

// Stored bytes travel in pieces of about this size: large enough for the full rate of a copy.
constexpr std::size_t kPieceBytes = std::size_t{64} << 20;

std::size_t elements_of(const StoredTensor& stored) {
    return static_cast<std::size_t>(stored.cols * stored.rows * stored.experts);
}

Status<> check_shape(const StoredTensor& stored) {
    const BlockShape block = block_shape(stored.type);
    const std::size_t elements = elements_of(stored);
    if (static_cast<std::size_t>(stored.cols) % block.elements != 0 ||
        elements / block.elements * block.bytes != stored.bytes.size()) {
        return refuse("a tensor of " + std::to_string(stored.experts) + " x " +
                      std::to_string(stored.rows) + " x " + std::to_string(stored.cols) + " " +
                      element_type_name(stored.type) + " elements cannot have " +
                      std::to_string(stored.bytes.size()) + " bytes");
    }
    return Done{};
}

void copy_in(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying a weight");
}

std::size_t tile_bytes(ElementType type, std::size_t groups) {
    const std::size_t tiles = (groups + kTileGroups - 1) / kTileGroups;
    return tiles * static_cast<std::size_t>(tile_layout(type).bytes);
}

Status<> pack_pieces(cudaStream_t stream, const StoredTensor& stored, const Planes& planes) {
    const BlockShape block = block_shape(stored.type);
    const std::size_t piece = kPieceBytes / block.bytes * block.bytes;
    auto staging = allocate_zeroed(stream, std::min(piece, stored.bytes.size()));
    if (!staging) return staging.failure();
    const std::size_t subs = block.elements / kGroupElements;
    for (std::size_t done = 0; done < stored.bytes.size(); done += piece) {
        const std::size_t bytes = std::min(piece, stored.bytes.size() - done);
        copy_in(stream, staging->address(), stored.bytes.data() + done, bytes);
        launch_pack(stream, stored.type, staging->address(),
                    static_cast<std::int64_t>(done / block.bytes * subs),
                    static_cast<std::int64_t>(bytes / block.bytes * subs), planes);
    }
    check(cudaStreamSynchronize(stream), "packing a weight");
    return Done{};
}

}  // namespace

const float* CudaWeight::device_expert_scales(cudaStream_t stream) const {
    if (expert_scales.empty()) return nullptr;
    if (!scales_on_device_) {
        auto memory = allocate_zeroed(stream, expert_scales.size() * sizeof(float));
        if (!memory) throw std::bad_alloc();
        copy_in(stream, memory->address(), expert_scales.data(), memory->bytes());
        check(cudaStreamSynchronize(stream), "copying scales");
        scales_on_device_ = std::move(memory).value();
    }
    return scales_on_device_.f32();
}

Result<std::unique_ptr<Weight>> upload_weight(cudaStream_t stream, const StoredTensor& stored) {
    if (const Status<> fits = check_shape(stored); !fits.ok()) return fits.failure();
    auto out = std::make_unique<CudaWeight>();
    out->cols = stored.cols;
    out->rows = stored.rows;
    out->experts = stored.experts;
    out->type = stored.type;
    if (is_float(stored.type)) {
        auto memory = allocate_zeroed(stream, stored.bytes.size());
        if (!memory) return memory.failure();
        out->memory_ = std::move(memory).value();
        out->planes.codes = static_cast<std::uint8_t*>(out->memory_.address());
        copy_in(stream, out->memory_.address(), stored.bytes.data(), stored.bytes.size());
        check(cudaStreamSynchronize(stream), "copying a weight");
        return std::unique_ptr<Weight>(std::move(out));
    }
    auto memory =
        allocate_zeroed(stream, tile_bytes(stored.type, elements_of(stored) / kGroupElements));
    if (!memory) return memory.failure();
    out->memory_ = std::move(memory).value();
    out->planes.codes = static_cast<std::uint8_t*>(out->memory_.address());
    if (const Status<> packed = pack_pieces(stream, stored, out->planes); !packed.ok()) {
        return packed.failure();
    }
    return std::unique_ptr<Weight>(std::move(out));
}

Result<Buffer> upload_weight_values(cudaStream_t stream, const StoredTensor& stored) {
    auto weight = upload_weight(stream, stored);
    if (!weight) return weight.failure();
    auto out = allocate_zeroed(stream, elements_of(stored) * sizeof(float));
    if (!out) return out.failure();
    launch_decode(stream, stored.type, on_device(**weight).planes,
                  static_cast<std::int64_t>(elements_of(stored)), out->f32());
    check(cudaStreamSynchronize(stream), "decoding values");
    return out;
}

}  // namespace strata::cuda
