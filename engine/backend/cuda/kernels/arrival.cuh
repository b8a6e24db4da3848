// Blocks of one launch that wait for each other's results without waiting: the last one to arrive
// goes on with what all of them have written.
#pragma once

#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

#ifdef __CUDACC__

// Whether this block is the last of `members` to come here; all that they wrote before is visible
// to it then, and the counter is zero again.
__device__ inline bool last_to_arrive(unsigned* counter, int members) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1U) == static_cast<unsigned>(members - 1);
        if (last) atomicExch(counter, 0U);
        __threadfence();
    }
    __syncthreads();
    return last;
}

#endif

}  // namespace strata::cuda
