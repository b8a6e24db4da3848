// The warp-wide instructions of sm_80 and later that several kernels are made of: copies into
// shared memory beside the computation, matrices from there into registers, their products (PTX
// ISA, cp.async, ldmatrix, mma). Earlier chips compile them and never run them.
#pragma once

#include <cstdint>

namespace strata::cuda {

__device__ __forceinline__ unsigned shared_address(const void* at) {
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

// 16 bytes from global to shared memory. They are there when their group has been waited for.
__device__ __forceinline__ void copy_later(unsigned to, const void* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
#endif
}
// The same; zeros where not `there`.
__device__ __forceinline__ void copy_later(unsigned to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
#endif
}
// The same for 4 or 8 bytes.
template <int kBytes>
__device__ __forceinline__ void copy_part_later(unsigned to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from),
                 "r"(there ? kBytes : 0), "n"(kBytes)
                 : "memory");
#endif
}
// The end of a group of this thread's copies.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for all of this thread's groups but the last kLeft.
template <int kLeft>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

// Four 8 x 8 matrices of 16-bit elements; lane l names row l % 8 of matrix l / 8. A lane gets of
// each the elements 2 (l % 4) and + 1 of row l / 4; of column l / 4 if kTransposed.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], unsigned row) {
    if constexpr (kTransposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(row)
                     : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(row)
                     : "memory");
    }
}

// d += a b: m16n8k16, halves with f32 sums. Row operands: a; b by columns. A lane's sums are rows
// lane / 4 and + 8, columns 2 (lane % 4), + 1.
__device__ __forceinline__ void multiply_tile(float (&d)[4], const std::uint32_t (&a)[4],
                                              std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

}  // namespace strata::cuda
