// What stands for the CUDA device in a build without CUDA's compiler.
#include "strata/backend/device.hpp"

namespace strata {

int cuda_device_count() {
    return 0;
}

Result<std::unique_ptr<Device>> make_cuda_device(const CudaDeviceOptions&) {
    return refuse("this build has no CUDA backend: nvcc was not found when it was configured");
}

}  // namespace strata
