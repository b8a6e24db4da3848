// What the products of experts ask of the chip: tiles of bf16 values in shared memory, and the
// tensor cores that multiply them (sm_80 and newer; on older chips nothing here does anything).
//
// A tile's row is 64 values, eight chunks of 16 bytes; chunk c of row r lies at place c ^ (r % 8),
// so that eight rows of one chunk, which is what a matrix load reads, lie in different banks.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/warp_instructions.cuh"
#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

constexpr int kTileColumns = 64;
constexpr int kTileChunks = kTileColumns / 8;
constexpr int kTileRowBytes = kTileChunks * 16;

// Byte offset of a chunk in a tile. Tiles are aligned to 1024 bytes: the offset of chunk c + 2 k is
// that of c (0 or 1) with 32 k exclusive-ored.
__host__ __device__ constexpr int tile_offset(int row, int chunk) {
    return row * kTileRowBytes + (chunk ^ row % 8) * 16;
}

// The row and chunk that a lane names in loads of four 8 x 8 matrices. Of row operands: rows 0 - 7
// and 8 - 15 of one chunk, then of the next one. Of column operands: both chunks of rows 0 - 7,
// then of rows 8 - 15.
__device__ __forceinline__ unsigned row_operand_offset(int lane) {
    return static_cast<unsigned>(tile_offset(lane % 16, lane / 16));
}
__device__ __forceinline__ unsigned column_operand_offset(int lane) {
    return static_cast<unsigned>(tile_offset(lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

#ifdef __CUDACC__

// Waits for all of this thread's copies, in groups or not.
__device__ __forceinline__ void wait_for_chunks() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// sum += a b: 16 x 16 rows by 16 x 8 columns. A lane's sums are rows lane / 4 and + 8, columns
// 2 (lane % 4), + 1.
__device__ __forceinline__ void add_bf16_product(float (&sum)[4], const std::uint32_t (&a)[4],
                                                 std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

#endif

}  // namespace strata::cuda
