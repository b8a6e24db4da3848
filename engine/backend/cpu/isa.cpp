// The run-time choice of an instruction set. Knows what the machine reports, not what kernels do.
#include "engine/backend/cpu/isa.hpp"

#include <algorithm>
#include <string>

namespace strata {
namespace {

#if defined(__x86_64__)
bool machine_has_avx2() {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
           __builtin_cpu_supports("f16c") != 0;
}
bool machine_has_avx512() {
    return machine_has_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}
#else
bool machine_has_avx2() {
    return false;
}
bool machine_has_avx512() {
    return false;
}
#endif

}  // namespace

std::vector<Isa> available_isas() {
    std::vector<Isa> isas = {Isa::scalar};
    if (machine_has_avx2()) isas.push_back(Isa::avx2);
    if (machine_has_avx512()) isas.push_back(Isa::avx512);
    return isas;
}

Result<Isa> choose_isa(std::string_view word) {
    const std::vector<Isa> isas = available_isas();
    if (word == "auto") return isas.back();
    Isa wanted = Isa::scalar;
    if (word == "avx2") {
        wanted = Isa::avx2;
    } else if (word == "avx512") {
        wanted = Isa::avx512;
    } else if (word != "scalar") {
        return refuse("kernels: '" + std::string(word) +
                      "' is not one of auto, scalar, avx2, avx512");
    }
    if (std::find(isas.begin(), isas.end(), wanted) == isas.end()) {
        return refuse("kernels: this machine does not run '" + std::string(word) +
                      "'; it runs up to " + isa_name(isas.back()));
    }
    return wanted;
}

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::scalar:
            return "scalar";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512-vnni";
    }
    return "?";
}

}  // namespace strata
