#include <algorithm>

#include "engine/backend/cuda/kernels/convolution.cuh"
#include "engine/backend/cuda/kernels/delta_chunks.cuh"
#include "engine/backend/cuda/kernels/delta_prepare.cuh"
#include "engine/backend/cuda/kernels/delta_rule.cuh"
#include "engine/backend/cuda/kernels/gated_norm.cuh"
#include "engine/backend/cuda/launch/delta.hpp"
#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kConvolutionThreads = 128;
constexpr std::int64_t kWideRowsMin = 16;  // with fewer rows, four times the threads hide more
constexpr std::size_t kVectorBytes = 16;

template <class... Pointers>
bool aligned(Pointers... pointers) {
    return ((reinterpret_cast<std::uintptr_t>(pointers) % kVectorBytes == 0) && ...);
}

template <int kKeys, bool kWhole>
void launch_tokens(cudaStream_t stream, const StepView& step, const DeltaRows& of) {
    constexpr int kBlockColumns = kDeltaColumns * kDeltaWarps;
    const dim3 grid(static_cast<unsigned>(ceil_div(of.value_dim, kBlockColumns)),
                    static_cast<unsigned>(of.value_heads));
    launch(stream, grid, kWarp * kDeltaWarps, 0, delta_tokens_kernel<kKeys, kWhole>, step, of);
}

void launch_token_by_token(cudaStream_t stream, const StepView& step, const DeltaRows& of) {
    const bool whole = of.key_dim == 8 * kDeltaKeyLanes &&
                       of.value_dim % (kDeltaColumns * kDeltaWarps) == 0 &&
                       of.state_offset % kVectorBytes == 0 && aligned(of.c);
    if (whole) {
        launch_tokens<8, true>(stream, step, of);
    } else if (of.key_dim <= 8 * kDeltaKeyLanes) {
        launch_tokens<8, false>(stream, step, of);
    } else if (of.key_dim <= 16 * kDeltaKeyLanes) {
        launch_tokens<16, false>(stream, step, of);
    } else {
        launch_tokens<32, false>(stream, step, of);
    }
}

std::int64_t segment_chunks(std::int64_t rows) {
    return ceil_div<std::int64_t>(std::min(rows, kDeltaSegmentRows), kChunkRows);
}

// Segments use the same scratch one after the other; it stays in the second-level cache.
void launch_chunks(cudaStream_t stream, const StepView& step, const DeltaRows& of, char* scratch) {
    static_assert(kDeltaSegmentRows % kChunkRows == 0);
    const std::int64_t key_bytes = segment_chunks(of.rows) * of.key_heads * kKeyHeadBytes;
    for (std::int64_t row = 0; row < of.rows; row += kDeltaSegmentRows) {
        DeltaSegment segment{of, scratch, scratch + key_bytes, 0};
        segment.of.rows = std::min(of.rows - row, kDeltaSegmentRows);
        const std::int64_t keys = std::int64_t{of.key_heads} * of.key_dim;
        const std::int64_t values = std::int64_t{of.value_heads} * of.value_dim;
        segment.of.c += row * (2 * keys + values);
        segment.of.b += row * of.value_heads;
        segment.of.alpha += row * of.value_heads;
        segment.of.o += row * values;
        segment.chunks = static_cast<int>(segment_chunks(segment.of.rows));
        const dim3 prepare_grid(static_cast<unsigned>(segment.chunks),
                                static_cast<unsigned>(of.key_heads));
        const int shared = prepare_shared_bytes(of.value_heads / of.key_heads);
        launch(stream, prepare_grid, kChunkThreads, static_cast<std::size_t>(shared),
               delta_prepare_kernel, segment);
        const dim3 walk_grid(kSlices, static_cast<unsigned>(of.value_heads));
        launch(stream, walk_grid, kChunkThreads, kChunksSharedBytes, delta_chunks_kernel, step,
               segment);
    }
}

}  // namespace

std::size_t delta_chunk_bytes(const DeltaShape& shape, std::int64_t rows) {
    if (shape.key_dim != kChunkDim || shape.value_dim != kChunkDim ||
        shape.value_heads > kChunkSharesMax * shape.key_heads) {
        return 0;
    }
    int device = 0;
    int shared_bytes = 0;
    check(cudaGetDevice(&device), "asking for the device");
    check(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "asking for shared memory");
    if (shared_bytes < kChunksSharedBytes) return 0;  // all before sm_80, too
    return static_cast<std::size_t>(segment_chunks(rows) * (shape.key_heads * kKeyHeadBytes +
                                                            shape.value_heads * kValueHeadBytes));
}

void launch_convolution(cudaStream_t stream, const StepView& step, const ConvolutionShape& shape,
                        Rows u, const float* taps, Rows c) {
    STRATA_INVARIANT(shape.kernel >= 1 && shape.kernel <= kConvolutionTapsMax);
    STRATA_INVARIANT(u.rows >= 1 && u.cols == shape.channels && c.cols == u.cols);
    STRATA_INVARIANT(c.rows == u.rows);
    const Convolution of{u.values,       taps,         c.values,          u.rows,
                         shape.channels, shape.kernel, shape.state_offset};
    const bool wide = shape.kernel == 4 && u.rows >= kWideRowsMin && shape.channels % 4 == 0 &&
                      shape.state_offset % kVectorBytes == 0 && aligned(u.values, taps, c.values);
    const std::int64_t threads = wide ? shape.channels / 4 : shape.channels;
    const dim3 grid(static_cast<unsigned>(ceil_div<std::int64_t>(threads, kConvolutionThreads)),
                    static_cast<unsigned>(ceil_div<std::int64_t>(u.rows, kConvolutionTile)));
    if (wide) {
        launch(stream, grid, kConvolutionThreads, 0, convolve_four_kernel<4>, step, of);
    } else if (shape.kernel == 4) {
        launch(stream, grid, kConvolutionThreads, 0, convolve_four_kernel<1>, step, of);
    } else {
        launch(stream, grid, kConvolutionThreads, 0, convolve_kernel, step, of);
    }
}

void launch_delta_rule(cudaStream_t stream, const StepView& step, const DeltaShape& shape, Rows c,
                       Rows b, Rows alpha, const float* a, const float* dt_bias, Rows o,
                       void* scratch) {
    STRATA_INVARIANT(shape.key_heads >= 1 && shape.value_heads % shape.key_heads == 0);
    STRATA_INVARIANT(shape.key_dim >= 1 && shape.key_dim <= kDeltaKeyDimMax);
    STRATA_INVARIANT(c.rows >= 1 && o.rows == c.rows && b.rows == c.rows && alpha.rows == c.rows);
    STRATA_INVARIANT(c.cols == 2 * shape.key_heads * shape.key_dim + o.cols);
    STRATA_INVARIANT(o.cols == shape.value_heads * shape.value_dim);
    DeltaRows of{};
    of.c = c.values;
    of.b = b.values;
    of.alpha = alpha.values;
    of.a = a;
    of.dt_bias = dt_bias;
    of.o = o.values;
    of.rows = c.rows;
    of.key_heads = static_cast<int>(shape.key_heads);
    of.value_heads = static_cast<int>(shape.value_heads);
    of.key_dim = static_cast<int>(shape.key_dim);
    of.value_dim = static_cast<int>(shape.value_dim);
    of.tiled = shape.map == HeadMap::tiled;
    of.state_offset = shape.state_offset;
    if (scratch != nullptr && shape.state_offset % kVectorBytes == 0 &&
        aligned(c.values, o.values, scratch)) {
        launch_chunks(stream, step, of, static_cast<char*>(scratch));
    } else {
        launch_token_by_token(stream, step, of);
    }
}

void launch_gated_rms_norm(cudaStream_t stream, Rows o, Rows z, std::int64_t head_dim,
                           const float* gain, float epsilon, Rows y) {
    STRATA_INVARIANT(head_dim >= 1 && o.cols % head_dim == 0);
    STRATA_INVARIANT(z.cols == o.cols && y.cols == o.cols);
    const GatedNorm of{o.values, z.values, gain, y.values, o.rows * (o.cols / head_dim),
                       head_dim, epsilon};
    const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(of.heads, kGatedNormWarps));
    const bool vectors = head_dim == 4 * kWarp && aligned(o.values, z.values, gain, y.values);
    launch(stream, blocks, kWarp * kGatedNormWarps, 0,
           vectors ? gated_norm_128_kernel : gated_norm_kernel, of);
}

}  // namespace strata::cuda
