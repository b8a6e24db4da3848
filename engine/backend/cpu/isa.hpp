// Which instruction set the kernels of this process use. Owns the choice at run time; the kernels
// themselves are compiled with their own flags in kernels_*.cpp and are reached only through a
// value of Isa that choose_isa() returned, so that nothing above baseline x86-64 runs on a machine
// without it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/core/result.hpp"

namespace strata {

enum class Isa : std::uint8_t {
    scalar,  // portable C++
    avx2,    // AVX2, FMA, F16C
    avx512,  // AVX-512 F, BW, VL, DQ and VNNI
};

// Every instruction set that this machine runs and this build has kernels for, slowest first.
[[nodiscard]] std::vector<Isa> available_isas();

// "auto" takes the fastest one; "scalar", "avx2" and "avx512" take that one. Refuses other words,
// and a set that the machine does not have.
[[nodiscard]] Result<Isa> choose_isa(std::string_view word);

// For people: "scalar", "avx2", "avx512-vnni".
[[nodiscard]] const char* isa_name(Isa isa);

}  // namespace strata
