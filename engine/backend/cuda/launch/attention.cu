#include <algorithm>

#include "engine/backend/cuda/kernels/attention_any.cuh"
#include "engine/backend/cuda/kernels/attention_codes.cuh"
#include "engine/backend/cuda/kernels/attention_inputs.cuh"
#include "engine/backend/cuda/kernels/attention_rows.cuh"
#include "engine/backend/cuda/kernels/attention_splits.cuh"
#include "engine/backend/cuda/kernels/prefill_kernels.cuh"
#include "engine/backend/cuda/launch/attention.hpp"
#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kTableBlocksMax = 4096;  // more blocks than this only queue up
constexpr std::int64_t kGridRowsMax = 32768;    // a grid's third dimension ends at 65,535
// In exact mode every row has its own parts: rows of one launch, 35 MB of parts at most on 132
// multiprocessors.
constexpr std::int64_t kExactRowsMax = 32;
constexpr std::size_t kVectorBytes = 16;

std::int64_t head_tiles(const AttentionShape& shape) {
    return ceil_div<std::int64_t>(shape.heads / shape.kv_heads, kTileHeads);
}

// Blocks among which the positions of a row are parted. In exact mode the rows beside it don't
// count.
std::int64_t splits_of(const AttentionShape& shape, std::int64_t rows, int multiprocessors,
                       bool exact) {
    const std::int64_t tiles = shape.kv_heads * head_tiles(shape) * (exact ? 1 : rows);
    return std::clamp<std::int64_t>(multiprocessors / tiles, 1, kSplitsMax);
}

std::int64_t rows_per_launch(std::int64_t rows, std::int64_t splits) {
    return std::min(rows, splits > 1 ? kExactRowsMax : kGridRowsMax);
}

bool is_aligned(const void* address, std::size_t offset = 0) {
    return (reinterpret_cast<std::uintptr_t>(address) + offset) % kVectorBytes == 0;
}

// Products on half precision matrices came with compute capability 8.
bool has_half_products() {
    int device = 0;
    int major = 0;
    check(cudaGetDevice(&device), "current device");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "compute capability");
    return major >= 8;
}

bool fits_products(const AttentionShape& shape, Rows q, Rows out) {
    const std::int64_t dim = shape.key_dim;
    return shape.kv_type != KvType::f32 && shape.value_dim == dim && shape.scale > 0.0F &&
           (dim == 64 || dim == 128 || dim == 256) && is_aligned(q.values) &&
           is_aligned(out.values) && is_aligned(nullptr, shape.k_offset) &&
           is_aligned(nullptr, shape.v_offset) && has_half_products();
}

AttentionCall attention_call(const StepView& step, const AttentionShape& shape, Rows q, Rows out,
                             const AttentionScratch& scratch) {
    AttentionCall call{};
    call.step = step;
    call.q = q.values;
    call.out = out.values;
    call.heads = static_cast<int>(shape.heads);
    call.kv_heads = static_cast<int>(shape.kv_heads);
    call.group = call.heads / call.kv_heads;
    call.head_tiles = static_cast<int>(head_tiles(shape));
    call.key_dim = static_cast<int>(shape.key_dim);
    call.value_dim = static_cast<int>(shape.value_dim);
    call.query_stride = static_cast<int>(shape.query_stride());
    call.scale = shape.scale;
    call.gated = shape.gated;
    call.k_offset = shape.k_offset;
    call.v_offset = shape.v_offset;
    call.partials = scratch.partials;
    call.counters = scratch.counters;
    call.rows = static_cast<int>(q.rows);
    call.coded_k = coded_row(shape.k_rows());
    call.coded_v = coded_row(shape.v_rows());
    return call;
}

template <int kDim>
void start_rows(cudaStream_t stream, dim3 grid, const AttentionCall& call, KvType type) {
    launch(stream, grid, dim3(rows_kernel_warps(kDim) * kWarp),
           static_cast<std::size_t>(rows_kernel_shared_bytes(kDim, call.group)),
           type == KvType::int8 ? attention_rows_kernel<kDim, std::int8_t>
                                : attention_rows_kernel<kDim, __half>,
           call);
}

void start_split(cudaStream_t stream, dim3 grid, const AttentionCall& call, bool fast,
                 KvType type) {
    if (fast) {
        if (call.key_dim == 64) return start_rows<64>(stream, grid, call, type);
        if (call.key_dim == 128) return start_rows<128>(stream, grid, call, type);
        return start_rows<256>(stream, grid, call, type);
    }
    const auto bytes =
        static_cast<std::size_t>(any_kernel_shared_bytes(call.key_dim, call.value_dim));
    const dim3 block(kAnyWarps * kWarp);
    auto* kernel = attention_any_kernel<float>;
    if (type == KvType::f16) kernel = attention_any_kernel<__half>;
    if (type == KvType::int8) kernel = attention_any_kernel<std::int8_t>;
    launch(stream, grid, block, bytes, kernel, call);
}

// Blocks among which the positions of a tile of rows are parted: as many as fill the chip.
template <int kDim>
std::int64_t prefill_parts(std::int64_t heads, std::int64_t rows, int multiprocessors) {
    using Shape = PrefillShape<kDim>;
    const std::int64_t held = std::int64_t{multiprocessors} * Shape::kBlocksPerProcessor;
    const std::int64_t blocks = heads * ceil_div<std::int64_t>(rows, Shape::kRows);
    return std::clamp<std::int64_t>(held / blocks, 1, kPrefillPartsMax);
}

template <int kDim>
std::int64_t prefill_partial_floats(std::int64_t heads, std::int64_t rows, int multiprocessors) {
    using Shape = PrefillShape<kDim>;
    const std::int64_t parts = prefill_parts<kDim>(heads, rows, multiprocessors);
    if (parts == 1) return 0;
    return heads * ceil_div<std::int64_t>(rows, Shape::kRows) * parts *
           prefill_part_floats<Shape>();
}

template <int kDim>
void start_prefill(cudaStream_t stream, const AttentionCall& call, KvType type,
                   int multiprocessors) {
    using Shape = PrefillShape<kDim>;
    const auto parts = prefill_parts<kDim>(call.heads, call.rows, multiprocessors);
    const dim3 grid(static_cast<unsigned>(call.heads),
                    static_cast<unsigned>(ceil_div(call.rows, Shape::kRows)),
                    static_cast<unsigned>(parts));
    const bool codes = type == KvType::int8;
    auto* kernel = attention_prefill_kernel<kDim, false>;
    if (codes) kernel = attention_prefill_codes_kernel<kDim, false>;
    if (parts > 1) {
        kernel = codes ? attention_prefill_codes_kernel<kDim, true>
                       : attention_prefill_kernel<kDim, true>;
    }
    launch(stream, grid, dim3(Shape::kThreads),
           codes ? PrefillCodes<Shape>::kSharedBytes : Shape::kSharedBytes, kernel, call);
}

}  // namespace

void launch_rope_table(cudaStream_t stream, const StepView& step, std::int64_t rows,
                       const double* frequencies, std::int64_t pairs, float magnitude,
                       float* table) {
    const std::int64_t count = rows * pairs;
    if (count == 0) return;
    const auto blocks =
        static_cast<unsigned>(std::min(ceil_div<std::int64_t>(count, kThreads), kTableBlocksMax));
    launch(stream, dim3(blocks), dim3(kThreads), 0, rope_table_kernel, step, count, frequencies,
           pairs, magnitude, table);
}

void launch_store_attention_inputs(cudaStream_t stream, const StepView& step,
                                   const AttentionShape& shape, const QkPreparation& preparation,
                                   Rows q, Rows k, Rows v) {
    STRATA_INVARIANT(q.cols == shape.heads * shape.query_stride());
    STRATA_INVARIANT(k.cols == shape.kv_heads * shape.key_dim && k.rows == q.rows);
    STRATA_INVARIANT(v.cols == shape.kv_heads * shape.value_dim && v.rows == q.rows);
    STRATA_INVARIANT(2 * preparation.rope_pairs <= shape.key_dim);
    const StoreCall call{
        step,     shape,    preparation, shape.query_stride(),      q.values,
        k.values, v.values, q.rows,      coded_row(shape.k_rows()), coded_row(shape.v_rows())};
    const std::int64_t tasks = q.rows * (shape.heads + 2 * shape.kv_heads);
    const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(tasks, kThreads / kWarp));
    launch(stream, dim3(blocks), dim3(kThreads), 0,
           shape.kv_type == KvType::int8 ? store_attention_inputs_kernel<true>
                                         : store_attention_inputs_kernel<false>,
           call);
}

std::int64_t attention_partial_floats(const AttentionShape& shape, std::int64_t rows,
                                      int multiprocessors, bool exact) {
    std::int64_t tiled = 0;
    if (!exact && rows >= kTiledRowsMin && shape.value_dim == shape.key_dim) {
        const auto of = [&](auto count) { return count(shape.heads, rows, multiprocessors); };
        if (shape.key_dim == 64) tiled = of(prefill_partial_floats<64>);
        if (shape.key_dim == 128) tiled = of(prefill_partial_floats<128>);
        if (shape.key_dim == 256) tiled = of(prefill_partial_floats<256>);
    }
    const std::int64_t splits = splits_of(shape, rows, multiprocessors, exact);
    if (splits == 1) return tiled;
    const int group = static_cast<int>(shape.heads / shape.kv_heads);
    return std::max(tiled, rows_per_launch(rows, splits) * shape.kv_heads * head_tiles(shape) *
                               splits * part_floats(group, static_cast<int>(shape.value_dim)));
}

std::int64_t attention_counters(const AttentionShape& shape, std::int64_t rows) {
    return std::min(rows, kGridRowsMax) * shape.kv_heads * head_tiles(shape) * kCountersPerTile;
}

bool stores_fresh_row(const AttentionShape& shape, Rows q, Rows out) {
    return q.rows == 1 && fits_products(shape, q, out);
}

void launch_attention(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                      Rows q, Rows out, const AttentionScratch& scratch, bool exact,
                      const FreshRow* fresh) {
    STRATA_INVARIANT(q.cols == shape.heads * shape.query_stride() && q.rows > 0);
    STRATA_INVARIANT(out.cols == shape.heads * shape.value_dim && out.rows == q.rows);
    AttentionCall call = attention_call(step, shape, q, out, scratch);
    const bool fast = fits_products(shape, q, out);
    if (fresh != nullptr) {
        STRATA_INVARIANT(stores_fresh_row(shape, q, out));
        STRATA_INVARIANT(is_aligned(fresh->k.values) && is_aligned(fresh->v.values) &&
                         is_aligned(fresh->preparation.q_gain) &&
                         is_aligned(fresh->preparation.k_gain) &&
                         is_aligned(fresh->preparation.rope_table));
        call.fresh_k = fresh->k.values;
        call.fresh_v = fresh->v.values;
        call.preparation = fresh->preparation;
    }
    if (fast && !exact && q.rows >= kTiledRowsMin) {
        const int chip = scratch.multiprocessors;
        if (shape.key_dim == 64) return start_prefill<64>(stream, call, shape.kv_type, chip);
        if (shape.key_dim == 128) return start_prefill<128>(stream, call, shape.kv_type, chip);
        return start_prefill<256>(stream, call, shape.kv_type, chip);
    }
    const std::int64_t splits = splits_of(shape, q.rows, scratch.multiprocessors, exact);
    const std::int64_t most = rows_per_launch(q.rows, splits);
    for (std::int64_t row = 0; row < q.rows; row += most) {
        call.row_begin = static_cast<int>(row);
        const dim3 grid(static_cast<unsigned>(shape.kv_heads * head_tiles(shape)),
                        static_cast<unsigned>(splits),
                        static_cast<unsigned>(std::min(most, q.rows - row)));
        start_split(stream, grid, call, fast, shape.kv_type);
    }
}

}  // namespace strata::cuda
