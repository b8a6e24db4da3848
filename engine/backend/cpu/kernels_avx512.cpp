#include "engine/backend/cpu/kernels.hpp"
namespace strata {
const Kernels& kernels_avx512() {
    return kernels_scalar();
}
}  // namespace strata
