// The float kernels, compiled for scalar (flags: CMakeLists.txt).
#include "engine/backend/cpu/float_table.hpp"

namespace strata {

const FloatKernels& float_kernels_scalar() {
    return kFloatKernels;
}

}  // namespace strata
