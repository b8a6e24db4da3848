// The portable rounding of activations, and the layout that all share.
#include "engine/backend/cpu/quantise_rows.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/backend/cpu/aligned_bytes.hpp"

namespace strata {
namespace {

std::size_t round_to_line(std::size_t bytes) {
    return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

}  // namespace

ActivationLayout activation_layout(std::int64_t cols) {
    const auto values = static_cast<std::size_t>(cols);
    const std::size_t blocks = values / static_cast<std::size_t>(kQ8Block);
    ActivationLayout layout;
    layout.scales = round_to_line(values);
    layout.starts = layout.scales + blocks * sizeof(float);
    layout.half_starts = layout.starts + blocks * sizeof(std::int32_t);
    layout.weighted_sums = layout.half_starts + 2 * blocks * sizeof(std::int32_t);
    layout.row_bytes = round_to_line(layout.weighted_sums + blocks * sizeof(float));
    return layout;
}

void finish_block(std::byte* row, const ActivationLayout& layout, std::int64_t block, float scale,
                  std::int32_t first_half_sum, std::int32_t second_half_sum) {
    const auto b = static_cast<std::size_t>(block);
    const std::int32_t sum = first_half_sum + second_half_sum;
    const std::int32_t start = -kWeightCodeBias * sum;
    const std::int32_t half_starts[2] = {-kWeightCodeBias * first_half_sum,
                                         -kWeightCodeBias * second_half_sum};
    const float weighted_sum = scale * static_cast<float>(sum);
    std::memcpy(row + layout.scales + b * sizeof scale, &scale, sizeof scale);
    std::memcpy(row + layout.starts + b * sizeof start, &start, sizeof start);
    std::memcpy(row + layout.half_starts + b * sizeof half_starts, half_starts, sizeof half_starts);
    std::memcpy(row + layout.weighted_sums + b * sizeof weighted_sum, &weighted_sum,
                sizeof weighted_sum);
}

void quantise_row_scalar(const float* x, std::int64_t cols, std::byte* row) {
    const ActivationLayout layout = activation_layout(cols);
    for (std::int64_t block = 0; block < cols / kQ8Block; ++block) {
        const float* values = x + block * kQ8Block;
        float largest = 0.0F;
        bool finite = true;
        for (std::int64_t k = 0; k < kQ8Block; ++k) {
            finite = finite && std::isfinite(values[k]);
            largest = std::fmax(largest, std::fabs(values[k]));
        }
        const float inverse = finite && largest > 0.0F ? kCodeMax / largest : 0.0F;
        std::int32_t half_sums[2] = {0, 0};
        for (std::int64_t k = 0; k < kQ8Block; ++k) {
            // A block so small that 127 / largest overflows counts as zero.
            const bool rounds = std::isfinite(inverse) && inverse > 0.0F;
            const auto code =
                rounds ? static_cast<std::int32_t>(std::nearbyint(values[k] * inverse)) : 0;
            row[block * kQ8Block + k] = static_cast<std::byte>(code & 0xFF);
            half_sums[k / (kQ8Block / 2)] += code;
        }
        const float scale = finite ? largest / kCodeMax : std::numeric_limits<float>::quiet_NaN();
        finish_block(row, layout, block, scale, half_sums[0], half_sums[1]);
    }
}

}  // namespace strata
