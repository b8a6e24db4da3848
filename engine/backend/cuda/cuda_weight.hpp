// A weight on the device (layout: weight_planes.hpp).
#pragma once

#include <memory>
#include <vector>

#include <cuda_runtime.h>

#include "engine/backend/cuda/weight_planes.hpp"
#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"

namespace strata::cuda {

class CudaWeight final : public Weight {
  public:
    Planes planes;

    // expert_scales on the device, copied when they are first asked for; null when there are none.
    // Throws std::bad_alloc.
    const float* device_expert_scales(cudaStream_t stream) const;

  private:
    friend Result<std::unique_ptr<Weight>> upload_weight(cudaStream_t stream,
                                                         const StoredTensor& stored);
    Buffer memory_;
    mutable Buffer scales_on_device_;
};

// Refuses a shape that does not fit its type or its bytes, and what the device has no memory for.
Result<std::unique_ptr<Weight>> upload_weight(cudaStream_t stream, const StoredTensor& stored);
// The values as f32 in file order.
Result<Buffer> upload_weight_values(cudaStream_t stream, const StoredTensor& stored);

inline const CudaWeight& on_device(const Weight& weight) {
    return static_cast<const CudaWeight&>(weight);
}

}  // namespace strata::cuda
