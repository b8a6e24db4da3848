// int8 rows of K and V on the device: where a row has what, and the storing of a head
// (strata/backend/kv_rows.hpp has the layout and the rounding).
#pragma once

#include <cstdint>

#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/backend/kv_rows.hpp"

namespace strata::cuda {

// Places in an int8 row (strata/backend/kv_rows.hpp), worked out on the host.
struct CodedRow {
    int bytes;   // of a row
    int gap;     // from its start to the zeros behind the codes
    int scales;  // and to the scales
};
inline CodedRow coded_row(const KvRows& rows) {
    if (rows.type != KvType::int8) return {};
    return {static_cast<int>(rows.row_bytes()), static_cast<int>(rows.head_offset(rows.heads)),
            static_cast<int>(rows.scale_offset(0))};
}

#ifdef __CUDACC__

// One warp: a head becomes the codes and the scale of head `index` of `heads` in an int8 row.
__device__ inline void store_codes(const float* head, int dim, char* row, const CodedRow& places,
                                   int index, int heads) {
    constexpr int kInfinity = 0x7f800000;  // the bits of magnitudes order like the numbers
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    int top = 0;
    for (int d = lane; d < dim; d += kWarp) top = max(top, __float_as_int(head[d]) & 0x7fffffff);
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
        top = max(top, __shfl_xor_sync(kAllLanes, top, step));
    }
    float scale = __int_as_float(top) / kKvCodeMax;
    if (scale < kKvScaleMin) scale = 0.0F;
    if (top >= kInfinity) scale = __int_as_float(0x7fc00000);
    const bool codes = scale > 0.0F;
    const float inverse = codes ? 1.0F / scale : 0.0F;
    auto* to = reinterpret_cast<std::int8_t*>(row + index * dim);
    for (int d = lane; d < dim; d += kWarp) {
        to[d] = static_cast<std::int8_t>(codes ? __float2int_rn(head[d] * inverse) : 0);
    }
    if (lane == 0) reinterpret_cast<float*>(row + places.scales)[index] = scale;
    if (index == heads - 1 && lane < places.scales - places.gap) row[places.gap + lane] = 0;
}

#endif

}  // namespace strata::cuda
