// Which table of float kernels an instruction set means.
#include "engine/backend/cpu/float_kernels.hpp"

namespace strata {

const FloatKernels& float_kernels(Isa isa) {
#if defined(__x86_64__)
    switch (isa) {
        case Isa::scalar:
            return float_kernels_scalar();
        case Isa::avx2:
            return float_kernels_avx2();
        case Isa::avx512:
            return float_kernels_avx512();
    }
#endif
    return float_kernels_scalar();
}

}  // namespace strata
