// The portable kernels: the same sums in the same order as the fast ones, one lane at a time, and
// the choice of a set. They run on any machine and are what the others are read against.
#include <array>
#include <cstring>

#include "engine/backend/cpu/blocks.hpp"
#include "engine/backend/cpu/code_lanes.hpp"
#include "engine/backend/cpu/kernels.hpp"
#include "engine/backend/cpu/quantise_rows.hpp"

namespace strata {
namespace {

using Sums = std::array<float, static_cast<std::size_t>(kTileRows)>;

template <class Value>
Value read(const std::byte* from, std::int64_t index) {
    Value value{};
    std::memcpy(&value, from + static_cast<std::size_t>(index) * sizeof(Value), sizeof(Value));
    return value;
}

void write_sums(const TileRun& run, std::int64_t tile, std::int64_t token, const Sums& sums) {
    const std::int64_t first = tile * kTileRows;
    float* y = run.y[token] + run.first_row + first;
    for (std::int64_t lane = 0; lane < kTileRows && first + lane < run.rows; ++lane) {
        float value = sums[static_cast<std::size_t>(lane)] * run.scale;
        if (run.bias != nullptr) value += run.bias[first + lane];
        y[lane] = run.accumulate ? y[lane] + value : value;
    }
}

// For every tile and token, sums = one_tile(tile bytes, x row).
template <class OneTile>
void for_each_output(const TileRun& run, const OneTile& one_tile) {
    for (std::int64_t tile = 0; tile * kTileRows < run.rows; ++tile) {
        const std::byte* start = run.tiles + static_cast<std::size_t>(tile) * run.tile_bytes;
        for (std::int64_t token = 0; token < run.tokens; ++token) {
            write_sums(run, tile, token, one_tile(start, run.x[token]));
        }
    }
}

template <class Word, class ToFloat>
void lanes_of_floats(const TileRun& run, const ToFloat& to_float) {
    for_each_output(run, [&](const std::byte* tile, const std::byte* x) {
        Sums sums{};
        for (std::int64_t k = 0; k < run.cols; ++k) {
            const auto value = read<float>(x, k);
            for (std::int64_t lane = 0; lane < kTileRows; ++lane) {
                sums[static_cast<std::size_t>(lane)] +=
                    to_float(read<Word>(tile, k * kTileRows + lane)) * value;
            }
        }
        return sums;
    });
}

void lanes_f32(const TileRun& run) {
    lanes_of_floats<float>(run, [](float value) { return value; });
}
void lanes_f16(const TileRun& run) {
    lanes_of_floats<std::uint16_t>(run, f16_to_f32);
}
void lanes_bf16(const TileRun& run) {
    lanes_of_floats<std::uint16_t>(run, bf16_to_f32);
}

// Sum over `groups` groups of four codes, from `start` on.
std::int32_t dot_codes(const std::byte* codes, const std::byte* x, std::int64_t groups,
                       std::int64_t lane, std::int32_t start) {
    std::int32_t sum = start;
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t j = 0; j < 4; ++j) {
            sum += std::to_integer<std::int32_t>(codes[(g * kTileRows + lane) * 4 + j]) *
                   read<std::int8_t>(x, g * 4 + j);
        }
    }
    return sum;
}

void lanes_q8(const TileRun& run) {
    const ActivationLayout layout = activation_layout(run.cols);
    const std::int64_t blocks = run.cols / kQ8Block;
    for_each_output(run, [&](const std::byte* tile, const std::byte* x) {
        Sums sums{};
        const std::byte* scales = tile + blocks * kQ8Block * kTileRows;
        for (std::int64_t b = 0; b < blocks; ++b) {
            const auto x_scale = read<float>(x + layout.scales, b);
            const auto start = read<std::int32_t>(x + layout.starts, b);
            for (std::int64_t lane = 0; lane < kTileRows; ++lane) {
                const std::int32_t dot = dot_codes(tile + b * kQ8Block * kTileRows,
                                                   x + b * kQ8Block, kQ8Block / 4, lane, start);
                const float scale = f16_to_f32(read<std::uint16_t>(scales, b * kTileRows + lane));
                sums[static_cast<std::size_t>(lane)] += static_cast<float>(dot) * scale * x_scale;
            }
        }
        return sums;
    });
}

// One block of one lane, added to `sum`.
float add_code_block(const CodeBlock& block, const CodeLayout& codes, const std::byte* x,
                     const ActivationLayout& layout, std::int64_t b, std::int64_t lane, float sum) {
    const std::int64_t parts = codes.half_scales ? 2 : 1;
    const std::int64_t groups = kQ8Block / 4 / parts;
    const std::size_t starts = codes.half_scales ? layout.half_starts : layout.starts;
    const auto x_scale = read<float>(x + layout.scales, b);
    const auto* code = reinterpret_cast<const std::byte*>(block.codes);
    for (std::int64_t part = 0; part < parts; ++part) {
        const std::int32_t dot =
            dot_codes(code + part * groups * kTileRows * 4, x + b * kQ8Block + part * groups * 4,
                      groups, lane, read<std::int32_t>(x + starts, b * parts + part));
        sum += static_cast<float>(dot) * block.scales[part * kTileRows + lane] * x_scale;
    }
    if (codes.minimums) sum -= block.minimums[lane] * read<float>(x + layout.weighted_sums, b);
    return sum;
}

void lanes_codes(const TileRun& run) {
    const ActivationLayout layout = activation_layout(run.cols);
    const CodeLayout codes = code_layout(run.type);
    const UnpackBlock unpack = unpack_of_scalar(run.type);
    const std::int64_t blocks = run.cols / kQ8Block;
    const std::byte* unpacked = nullptr;
    for_each_output(run, [&](const std::byte* tile, const std::byte* x) {
        for (std::int64_t b = 0; tile != unpacked && b < blocks; ++b) {
            unpack(tile + b / codes.blocks * static_cast<std::int64_t>(codes.group_bytes()),
                   b % codes.blocks, run.decoded[b]);
        }
        unpacked = tile;
        Sums sums{};
        for (std::int64_t b = 0; b < blocks; ++b) {
            for (std::int64_t lane = 0; lane < kTileRows; ++lane) {
                float& sum = sums[static_cast<std::size_t>(lane)];
                sum = add_code_block(run.decoded[b], codes, x, layout, b, lane, sum);
            }
        }
        return sums;
    });
}

}  // namespace

const Kernels& kernels_scalar() {
    static const Kernels set = {lanes_f32,   lanes_f16,        lanes_bf16,         lanes_q8,
                                lanes_codes, unpack_of_scalar, quantise_row_scalar};
    return set;
}

const Kernels& kernels(Isa isa) {
    switch (isa) {
        case Isa::avx512:
            return kernels_avx512();
        case Isa::avx2:
            return kernels_avx2();
        case Isa::scalar:
            break;
    }
    return kernels_scalar();
}

}  // namespace strata
