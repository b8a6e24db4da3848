// The kernels for AVX-512 with VNNI: one vector is one tile's 16 output rows. Compiled with its own
// flags; includes nothing whose inline functions another file may share.
//
// Every output is one lane that runs down K: 8 integer dot products per block of 32, then
// sum = fma(f32(dot) * weight scale, activation scale, sum). How many tiles and tokens are in
// registers together changes the speed, never the order.
#include "engine/backend/cpu/kernels.hpp"

#if defined(__AVX512F__) && defined(__AVX512VNNI__)

// GCC 12's own header starts unused operands from themselves; the warning is about those.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cstring>

#include <immintrin.h>

#include "engine/backend/cpu/code_lanes.hpp"
#include "engine/backend/cpu/quantise_rows.hpp"

namespace strata {
namespace {

constexpr std::int64_t kBlockBytes = kQ8Block * kTileRows;  // codes of one block of one tile
constexpr std::int64_t kGroups = 8;                         // groups of 4 codes in a block
constexpr std::int64_t kVectorBytes = 64;

template <class Value>
inline Value read(const std::byte* from, std::int64_t index) {
    Value value;
    std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof(Value)), sizeof(Value));
    return value;
}

inline __m512i load_codes(const std::byte* from) {
    return _mm512_load_si512(reinterpret_cast<const void*>(from));
}
inline __m512 load_f32(const std::byte* from) {
    return _mm512_load_ps(reinterpret_cast<const void*>(from));
}
inline __m512 load_f16(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
}
inline __m512 load_bf16(const std::byte* from) {
    const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

void write_sums(const TileRun& run, std::int64_t tile, std::int64_t token, __m512 sums) {
    const std::int64_t first = tile * kTileRows;
    const std::int64_t left = run.rows - first;
    const auto lanes = static_cast<__mmask16>(
        left >= kTileRows ? 0xFFFFU : (1U << static_cast<unsigned>(left)) - 1U);
    float* y = run.y[token] + run.first_row + first;
    __m512 value = _mm512_mul_ps(sums, _mm512_set1_ps(run.scale));
    if (run.bias != nullptr) {
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(lanes, run.bias + first));
    }
    if (run.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, y), value);
    _mm512_mask_storeu_ps(y, lanes, value);
}

// Outputs of kTiles tiles from `tile` on for kTokens tokens from `token` on.
struct Q8Outputs {
    ActivationLayout layout;

    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        const std::int64_t blocks = run.cols / kQ8Block;
        const std::byte* codes[kTiles];
        for (int i = 0; i < kTiles; ++i) {
            codes[i] = run.tiles + (tile + i) * static_cast<std::int64_t>(run.tile_bytes);
        }
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m512 sums[kTiles][kTokens];
        for (int i = 0; i < kTiles; ++i) {
            for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm512_setzero_ps();
        }
        for (std::int64_t b = 0; b < blocks; ++b) {
            __m512i dots[kTiles][kTokens];
            for (int t = 0; t < kTokens; ++t) {
                const __m512i start =
                    _mm512_set1_epi32(read<std::int32_t>(x[t] + layout.starts, b));
                for (int i = 0; i < kTiles; ++i) dots[i][t] = start;
            }
#pragma GCC unroll 8
            for (std::int64_t g = 0; g < kGroups; ++g) {
                __m512i weights[kTiles];
                for (int i = 0; i < kTiles; ++i) {
                    weights[i] = load_codes(codes[i] + b * kBlockBytes + g * kVectorBytes);
                }
                for (int t = 0; t < kTokens; ++t) {
                    const __m512i four =
                        _mm512_set1_epi32(read<std::int32_t>(x[t], b * kGroups + g));
                    for (int i = 0; i < kTiles; ++i) {
                        dots[i][t] = _mm512_dpbusd_epi32(dots[i][t], weights[i], four);
                    }
                }
            }
            for (int i = 0; i < kTiles; ++i) {
                const __m512 scale = load_f16(codes[i] + blocks * kBlockBytes + b * kTileRows * 2);
                for (int t = 0; t < kTokens; ++t) {
                    const __m512 x_scale = _mm512_set1_ps(read<float>(x[t] + layout.scales, b));
                    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[i][t]), scale);
                    sums[i][t] = _mm512_fmadd_ps(scaled, x_scale, sums[i][t]);
                }
            }
        }
        for (int i = 0; i < kTiles; ++i) {
            for (int t = 0; t < kTokens; ++t) write_sums(run, tile + i, token + t, sums[i][t]);
        }
    }
};

template <__m512 (*kLoad)(const std::byte*), std::int64_t kStepBytes>
struct FloatOutputs {
    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        const std::byte* weights[kTiles];
        for (int i = 0; i < kTiles; ++i) {
            weights[i] = run.tiles + (tile + i) * static_cast<std::int64_t>(run.tile_bytes);
        }
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m512 sums[kTiles][kTokens];
        for (int i = 0; i < kTiles; ++i) {
            for (int t = 0; t < kTokens; ++t) sums[i][t] = _mm512_setzero_ps();
        }
        for (std::int64_t k = 0; k < run.cols; ++k) {
            __m512 weight[kTiles];
            for (int i = 0; i < kTiles; ++i) weight[i] = kLoad(weights[i] + k * kStepBytes);
            for (int t = 0; t < kTokens; ++t) {
                const __m512 value = _mm512_set1_ps(read<float>(x[t], k));
                for (int i = 0; i < kTiles; ++i) {
                    sums[i][t] = _mm512_fmadd_ps(weight[i], value, sums[i][t]);
                }
            }
        }
        for (int i = 0; i < kTiles; ++i) {
            for (int t = 0; t < kTokens; ++t) write_sums(run, tile + i, token + t, sums[i][t]);
        }
    }
};

// Blocks of one tile of codes, taken apart as they are asked for, or all of them before.
struct CodeSource {
    UnpackBlock unpack;
    CodeLayout codes;
    const std::byte* tile = nullptr;
    const CodeBlock* decoded = nullptr;

    void unpack_to(std::int64_t b, CodeBlock& out) const {
        unpack(tile + b / codes.blocks * static_cast<std::int64_t>(codes.group_bytes()),
               b % codes.blocks, out);
    }
};

// Codes, a scale per block or per half of it, and minimums or not. One tile only.
template <bool kHalves, bool kMinimums>
struct CodeOutputs {
    const CodeSource& source;
    ActivationLayout layout;

    template <int kTokens>
    void add_block(const CodeBlock& block, const std::byte* const (&x)[kTokens], std::int64_t b,
                   __m512 (&sums)[kTokens]) const {
        constexpr std::int64_t kParts = kHalves ? 2 : 1;
        const std::size_t starts = kHalves ? layout.half_starts : layout.starts;
        const auto* codes = reinterpret_cast<const std::byte*>(block.codes);
        for (std::int64_t part = 0; part < kParts; ++part) {
            __m512i dots[kTokens];
            for (int t = 0; t < kTokens; ++t) {
                const auto start = read<std::int32_t>(x[t] + starts, b * kParts + part);
                dots[t] = _mm512_set1_epi32(start);
            }
#pragma GCC unroll 8
            for (std::int64_t g = 0; g < kGroups / kParts; ++g) {
                const std::int64_t group = part * (kGroups / kParts) + g;
                const __m512i weights = load_codes(codes + group * kVectorBytes);
                for (int t = 0; t < kTokens; ++t) {
                    const auto four = read<std::int32_t>(x[t], b * kGroups + group);
                    dots[t] = _mm512_dpbusd_epi32(dots[t], weights, _mm512_set1_epi32(four));
                }
            }
            const __m512 scale = _mm512_load_ps(block.scales + part * kTileRows);
            for (int t = 0; t < kTokens; ++t) {
                const __m512 x_scale = _mm512_set1_ps(read<float>(x[t] + layout.scales, b));
                const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[t]), scale);
                sums[t] = _mm512_fmadd_ps(scaled, x_scale, sums[t]);
            }
        }
        if (!kMinimums) return;
        const __m512 minimum = _mm512_load_ps(block.minimums);
        for (int t = 0; t < kTokens; ++t) {
            const __m512 sum = _mm512_set1_ps(read<float>(x[t] + layout.weighted_sums, b));
            sums[t] = _mm512_fnmadd_ps(minimum, sum, sums[t]);
        }
    }

    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        static_assert(kTiles == 1);
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m512 sums[kTokens];
        for (int t = 0; t < kTokens; ++t) sums[t] = _mm512_setzero_ps();
        CodeBlock own;
        for (std::int64_t b = 0; b < run.cols / kQ8Block; ++b) {
            if (source.decoded == nullptr) source.unpack_to(b, own);
            add_block<kTokens>(source.decoded == nullptr ? own : source.decoded[b], x, b, sums);
        }
        for (int t = 0; t < kTokens; ++t) write_sums(run, tile, token + t, sums[t]);
    }
};

// All tokens, in blocks of kTokens, then 4, 2 and 1.
template <int kTiles, int kTokens, class Outputs>
void tokens_of_tiles(const TileRun& run, std::int64_t tile, const Outputs& outputs) {
    std::int64_t token = 0;
    for (; token + kTokens <= run.tokens; token += kTokens) {
        outputs.template compute<kTiles, kTokens>(run, tile, token);
    }
    for (; token + 4 <= run.tokens; token += 4) {
        outputs.template compute<kTiles, 4>(run, tile, token);
    }
    for (; token + 2 <= run.tokens; token += 2) {
        outputs.template compute<kTiles, 2>(run, tile, token);
    }
    if (token < run.tokens) outputs.template compute<kTiles, 1>(run, tile, token);
}

// One token takes tiles in fours, so that independent sums hide the latency of each other; several
// tokens take them in pairs, so that an activation is broadcast once for both.
template <int kTokens, class Outputs>
void all_outputs(const TileRun& run, const Outputs& outputs) {
    const std::int64_t tiles = (run.rows + kTileRows - 1) / kTileRows;
    std::int64_t tile = 0;
    if (run.tokens == 1) {
        for (; tile + 4 <= tiles; tile += 4) outputs.template compute<4, 1>(run, tile, 0);
    }
    for (; tile + 2 <= tiles; tile += 2) tokens_of_tiles<2, kTokens>(run, tile, outputs);
    if (tile < tiles) tokens_of_tiles<1, kTokens>(run, tile, outputs);
}

// 2 tiles x 6 tokens of integer and of float sums fill 24 of the 32 registers; floats alone 2 x 12.
constexpr int kQ8Tokens = 6;
constexpr int kFloatTokens = 12;
constexpr int kCodeTokens = 12;

void lanes_q8(const TileRun& run) {
    all_outputs<kQ8Tokens>(run, Q8Outputs{activation_layout(run.cols)});
}
void lanes_f32(const TileRun& run) {
    all_outputs<kFloatTokens>(run, FloatOutputs<load_f32, kTileRows * 4>{});
}
void lanes_f16(const TileRun& run) {
    all_outputs<kFloatTokens>(run, FloatOutputs<load_f16, kTileRows * 2>{});
}
void lanes_bf16(const TileRun& run) {
    all_outputs<kFloatTokens>(run, FloatOutputs<load_bf16, kTileRows * 2>{});
}

// A block is taken apart in passing when all tokens fit the registers, or else once for all of
// them.
bool one_pass(std::int64_t tokens) {
    return tokens == 1 || tokens == 2 || tokens == 4;
}

template <bool kHalves, bool kMinimums>
void code_tiles(const TileRun& run, CodeSource source) {
    const CodeOutputs<kHalves, kMinimums> outputs{source, activation_layout(run.cols)};
    for (std::int64_t tile = 0; tile * kTileRows < run.rows; ++tile) {
        source.tile = run.tiles + tile * static_cast<std::int64_t>(run.tile_bytes);
        if (!one_pass(run.tokens)) {
            for (std::int64_t b = 0; b < run.cols / kQ8Block; ++b)
                source.unpack_to(b, run.decoded[b]);
            source.decoded = run.decoded;
        }
        tokens_of_tiles<1, kCodeTokens>(run, tile, outputs);
    }
}

void lanes_codes(const TileRun& run) {
    const CodeSource source{unpack_of_avx512(run.type), code_layout(run.type)};
    if (source.codes.half_scales) {
        code_tiles<true, false>(run, source);
    } else if (source.codes.minimums) {
        code_tiles<false, true>(run, source);
    } else {
        code_tiles<false, false>(run, source);
    }
}

// The rounding of quantise_rows.hpp.
void quantise_row(const float* x, std::int64_t cols, std::byte* row) {
    const ActivationLayout layout = activation_layout(cols);
    const __m512 infinity = _mm512_set1_ps(__builtin_inff());
    for (std::int64_t block = 0; block < cols / kQ8Block; ++block) {
        const __m512 first = _mm512_loadu_ps(x + block * kQ8Block);
        const __m512 second = _mm512_loadu_ps(x + block * kQ8Block + kTileRows);
        const __m512 first_size = _mm512_abs_ps(first);
        const __m512 second_size = _mm512_abs_ps(second);
        const bool finite = (_mm512_cmp_ps_mask(first_size, infinity, _CMP_LT_OQ) &
                             _mm512_cmp_ps_mask(second_size, infinity, _CMP_LT_OQ)) == 0xFFFF;
        const float largest = _mm512_reduce_max_ps(_mm512_max_ps(first_size, second_size));
        float inverse = finite && largest > 0.0F ? kCodeMax / largest : 0.0F;
        if (!(inverse < __builtin_inff())) inverse = 0.0F;
        __m512i first_codes = _mm512_setzero_si512();
        __m512i second_codes = _mm512_setzero_si512();
        if (inverse > 0.0F) {
            const __m512 factor = _mm512_set1_ps(inverse);
            first_codes = _mm512_cvtps_epi32(_mm512_mul_ps(first, factor));
            second_codes = _mm512_cvtps_epi32(_mm512_mul_ps(second, factor));
        }
        auto* to = reinterpret_cast<__m128i*>(row + block * kQ8Block);
        _mm_store_si128(to, _mm512_cvtepi32_epi8(first_codes));
        _mm_store_si128(to + 1, _mm512_cvtepi32_epi8(second_codes));
        finish_block(row, layout, block, finite ? largest / kCodeMax : __builtin_nanf(""),
                     _mm512_reduce_add_epi32(first_codes), _mm512_reduce_add_epi32(second_codes));
    }
}

}  // namespace

const Kernels& kernels_avx512() {
    static const Kernels set = {lanes_f32,   lanes_f16,        lanes_bf16,  lanes_q8,
                                lanes_codes, unpack_of_avx512, quantise_row};
    return set;
}

}  // namespace strata

#else  // another processor family: never chosen, see isa.cpp

namespace strata {
const Kernels& kernels_avx512() {
    return kernels_scalar();
}
}  // namespace strata

#endif
