// Launches that turn weights from one form into another: the file's blocks into planes, planes into
// values. Grids depend on sizes alone.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "engine/backend/cuda/weight_planes.hpp"
#include "strata/backend/tensor.hpp"

namespace strata::cuda {

struct StepView;

// Packs groups [first, first + count) of a quantised type; `stored` begins with the first one's
// block, which it begins.
void launch_pack(cudaStream_t stream, ElementType type, const void* stored, std::int64_t first,
                 std::int64_t count, const Planes& planes);

// out[i] = value i of a weight's `count` values in file order.
void launch_decode(cudaStream_t stream, ElementType type, const Planes& planes, std::int64_t count,
                   float* out);

// x[t] = row ids[t] of the table times `scale`.
void launch_embed(cudaStream_t stream, const StepView& step, ElementType type, const Planes& planes,
                  float scale, Rows x);

// Rows [first, first + rows) of a weight of `cols` columns as bf16, row after row.
void launch_unpack_rows(cudaStream_t stream, ElementType type, const Planes& planes,
                        std::int64_t cols, std::int64_t first, std::int64_t rows, void* bf16);

}  // namespace strata::cuda
