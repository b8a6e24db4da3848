// The table that float_kernels_*.cpp export: every float kernel as compiled for one instruction
// set.
#pragma once

#include "engine/backend/cpu/float_attention.hpp"
#include "engine/backend/cpu/float_delta.hpp"
#include "engine/backend/cpu/float_shortlist.hpp"

namespace {

constexpr strata::FloatKernels kFloatKernels = {
    .rms_norm = rms_norm,
    .gated_rms_norm = gated_rms_norm,
    .swiglu = swiglu,
    .sigmoid_gate = sigmoid_gate,
    .add_scaled = add_scaled,
    .scale = scale,
    .dot = dot,
    .find_largest = find_largest,
    .group_maxima = group_maxima,
    .gather_from = gather_from,
    .weigh_block = weigh_block,
    .to_halves = to_halves,
    .to_codes = to_codes,
    .rotate_adjacent = rotate_adjacent,
    .rotate_halves = rotate_halves,
    .convolve = convolve,
    .product = product,
    .attend = attend,
    .delta_tokens = delta_tokens,
    .delta_chunk = delta_chunk,
};

}  // namespace
