// The float kernels, compiled for avx2 (flags: CMakeLists.txt).
#include "engine/backend/cpu/float_table.hpp"

namespace strata {

const FloatKernels& float_kernels_avx2() {
    return kFloatKernels;
}

}  // namespace strata
