// The float kernels, compiled for avx512 (flags: CMakeLists.txt).
#include "engine/backend/cpu/float_table.hpp"

namespace strata {

const FloatKernels& float_kernels_avx512() {
    return kFloatKernels;
}

}  // namespace strata
