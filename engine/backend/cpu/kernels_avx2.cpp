// The kernels for AVX2 with FMA and F16C: a tile's 16 output rows are two vectors. Compiled with
// its own flags; includes nothing whose inline functions another file may share.
//
// The integer products take |weight| as the unsigned and the activation with the weight's sign as
// the signed factor: 128 * 127 * 2 fits 16 bits, so nothing saturates, and the sums need no start
// value.
#include "engine/backend/cpu/kernels.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <cstring>

#include <immintrin.h>

#include "engine/backend/cpu/code_lanes.hpp"
#include "engine/backend/cpu/quantise_rows.hpp"

namespace strata {
namespace {

constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kHalvesOfTile = 2;                   // vectors of one tile
constexpr std::int64_t kBlockBytes = kQ8Block * kTileRows;  // codes of one block of one tile
constexpr std::int64_t kGroups = 8;                         // groups of 4 codes in a block
constexpr std::int64_t kVectorBytes = 32;

template <class Value>
inline Value read(const std::byte* from, std::int64_t index) {
    Value value;
    std::memcpy(&value, from + index * static_cast<std::int64_t>(sizeof(Value)), sizeof(Value));
    return value;
}

inline __m256 load_f32(const std::byte* from) {
    return _mm256_load_ps(reinterpret_cast<const float*>(from));
}
inline __m256 load_f16(const std::byte* from) {
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(from)));
}
inline __m256 load_bf16(const std::byte* from) {
    const __m128i words = _mm_load_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

// One vector (half a tile) of output.
void write_half(const TileRun& run, std::int64_t first, std::int64_t token, __m256 sums) {
    const std::int64_t left = run.rows - first;
    float* y = run.y[token] + run.first_row + first;
    __m256 value = _mm256_mul_ps(sums, _mm256_set1_ps(run.scale));
    if (left >= kLanes) {
        if (run.bias != nullptr) value = _mm256_add_ps(value, _mm256_loadu_ps(run.bias + first));
        if (run.accumulate) value = _mm256_add_ps(_mm256_loadu_ps(y), value);
        _mm256_storeu_ps(y, value);
        return;
    }
    float values[kLanes];
    _mm256_storeu_ps(values, value);
    for (std::int64_t lane = 0; lane < left; ++lane) {
        float one = values[lane];
        if (run.bias != nullptr) one += run.bias[first + lane];
        y[lane] = run.accumulate ? y[lane] + one : one;
    }
}

template <int kTiles, int kTokens>
void write_sums(const TileRun& run, std::int64_t tile, std::int64_t token,
                const __m256 (&sums)[kTiles * kHalvesOfTile][kTokens]) {
    for (int v = 0; v < kTiles * kHalvesOfTile; ++v) {
        const std::int64_t first = tile * kTileRows + v * kLanes;
        for (int t = 0; t < kTokens; ++t) write_half(run, first, token + t, sums[v][t]);
    }
}

// dots += the products of the group of four codes per lane at `codes` with group `group` of each
// row.
template <int kTokens>
inline void add_group(const std::byte* codes, std::int64_t group,
                      const std::byte* const (&x)[kTokens],
                      __m256i (&dots)[kHalvesOfTile][kTokens]) {
    const __m256i bias = _mm256_set1_epi8(-128);
    const __m256i ones = _mm256_set1_epi16(1);
    for (int v = 0; v < kHalvesOfTile; ++v) {
        const auto* from = reinterpret_cast<const __m256i*>(codes + v * kVectorBytes);
        const __m256i weights = _mm256_xor_si256(_mm256_load_si256(from), bias);
        const __m256i sizes = _mm256_abs_epi8(weights);
        for (int t = 0; t < kTokens; ++t) {
            const __m256i four = _mm256_set1_epi32(read<std::int32_t>(x[t], group));
            const __m256i pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(four, weights));
            dots[v][t] = _mm256_add_epi32(dots[v][t], _mm256_madd_epi16(pairs, ones));
        }
    }
}

// One token reads each weight once, faster than the machine's own prefetching follows: half of the
// time went into waiting without this, measured on a Zen 5 server.
constexpr std::int64_t kFetchAheadBytes = 4096;
inline void fetch(const std::byte* weights) {
    _mm_prefetch(reinterpret_cast<const char*>(weights) + kFetchAheadBytes, _MM_HINT_T0);
}

struct Q8Outputs {
    ActivationLayout layout;

    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        static_assert(kTiles == 1);
        const std::int64_t blocks = run.cols / kQ8Block;
        const std::byte* codes = run.tiles + tile * static_cast<std::int64_t>(run.tile_bytes);
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m256 sums[kHalvesOfTile][kTokens];
        for (auto& half : sums) {
            for (__m256& sum : half) sum = _mm256_setzero_ps();
        }
        for (std::int64_t b = 0; b < blocks; ++b) {
            __m256i dots[kHalvesOfTile][kTokens];
            for (auto& half : dots) {
                for (__m256i& dot : half) dot = _mm256_setzero_si256();
            }
#pragma GCC unroll 8
            for (std::int64_t g = 0; g < kGroups; ++g) {
                if (kTokens == 1) fetch(codes + (b * kGroups + g) * kHalvesOfTile * kVectorBytes);
                add_group<kTokens>(codes + (b * kGroups + g) * kHalvesOfTile * kVectorBytes,
                                   b * kGroups + g, x, dots);
            }
            const std::byte* scales = codes + blocks * kBlockBytes + b * kTileRows * 2;
            for (int v = 0; v < kHalvesOfTile; ++v) {
                const __m256 scale = load_f16(scales + v * kLanes * 2);
                for (int t = 0; t < kTokens; ++t) {
                    const __m256 x_scale = _mm256_set1_ps(read<float>(x[t] + layout.scales, b));
                    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[v][t]), scale);
                    sums[v][t] = _mm256_fmadd_ps(scaled, x_scale, sums[v][t]);
                }
            }
        }
        write_sums<1, kTokens>(run, tile, token, sums);
    }
};

template <__m256 (*kLoad)(const std::byte*), std::int64_t kElementBytes>
struct FloatOutputs {
    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        constexpr int kVectors = kTiles * kHalvesOfTile;
        const std::byte* weights[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            weights[v] = run.tiles +
                         (tile + v / kHalvesOfTile) * static_cast<std::int64_t>(run.tile_bytes) +
                         v % kHalvesOfTile * kLanes * kElementBytes;
        }
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m256 sums[kVectors][kTokens];
        for (auto& vector : sums) {
            for (__m256& sum : vector) sum = _mm256_setzero_ps();
        }
        for (std::int64_t k = 0; k < run.cols; ++k) {
            __m256 weight[kVectors];
            for (int v = 0; v < kVectors; ++v) {
                weight[v] = kLoad(weights[v] + k * kTileRows * kElementBytes);
            }
            for (int t = 0; t < kTokens; ++t) {
                const __m256 value = _mm256_set1_ps(read<float>(x[t], k));
                for (int v = 0; v < kVectors; ++v) {
                    sums[v][t] = _mm256_fmadd_ps(weight[v], value, sums[v][t]);
                }
            }
        }
        write_sums<kTiles, kTokens>(run, tile, token, sums);
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

// Codes, a scale per block or per half of it, and minimums or not.
template <bool kHalves, bool kMinimums>
struct CodeOutputs {
    const CodeSource& source;
    ActivationLayout layout;

    template <int kTokens>
    void add_block(const CodeBlock& block, const std::byte* const (&x)[kTokens], std::int64_t b,
                   __m256 (&sums)[kHalvesOfTile][kTokens]) const {
        constexpr std::int64_t kParts = kHalves ? 2 : 1;
        const auto* codes = reinterpret_cast<const std::byte*>(block.codes);
        for (std::int64_t part = 0; part < kParts; ++part) {
            __m256i dots[kHalvesOfTile][kTokens];
            for (auto& half : dots) {
                for (__m256i& dot : half) dot = _mm256_setzero_si256();
            }
#pragma GCC unroll 8
            for (std::int64_t g = 0; g < kGroups / kParts; ++g) {
                const std::int64_t group = part * (kGroups / kParts) + g;
                add_group<kTokens>(codes + group * kHalvesOfTile * kVectorBytes,
                                   b * kGroups + group, x, dots);
            }
            for (int v = 0; v < kHalvesOfTile; ++v) {
                const __m256 scale = _mm256_load_ps(block.scales + part * kTileRows + v * kLanes);
                for (int t = 0; t < kTokens; ++t) {
                    const __m256 x_scale = _mm256_set1_ps(read<float>(x[t] + layout.scales, b));
                    const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[v][t]), scale);
                    sums[v][t] = _mm256_fmadd_ps(scaled, x_scale, sums[v][t]);
                }
            }
        }
        if (!kMinimums) return;
        for (int v = 0; v < kHalvesOfTile; ++v) {
            const __m256 minimum = _mm256_load_ps(block.minimums + v * kLanes);
            for (int t = 0; t < kTokens; ++t) {
                const __m256 sum = _mm256_set1_ps(read<float>(x[t] + layout.weighted_sums, b));
                sums[v][t] = _mm256_fnmadd_ps(minimum, sum, sums[v][t]);
            }
        }
    }

    template <int kTiles, int kTokens>
    void compute(const TileRun& run, std::int64_t tile, std::int64_t token) const {
        static_assert(kTiles == 1);
        const std::byte* x[kTokens];
        for (int t = 0; t < kTokens; ++t) x[t] = run.x[token + t];
        __m256 sums[kHalvesOfTile][kTokens];
        for (auto& half : sums) {
            for (__m256& sum : half) sum = _mm256_setzero_ps();
        }
        CodeBlock own;
        for (std::int64_t b = 0; b < run.cols / kQ8Block; ++b) {
            if (source.decoded == nullptr) source.unpack_to(b, own);
            add_block<kTokens>(source.decoded == nullptr ? own : source.decoded[b], x, b, sums);
        }
        write_sums<1, kTokens>(run, tile, token, sums);
    }
};

// All tokens of one tile, in blocks of kTokens, then one by one.
template <int kTokens, class Outputs>
void tokens_of_tile(const TileRun& run, std::int64_t tile, const Outputs& outputs) {
    std::int64_t token = 0;
    for (; token + kTokens <= run.tokens; token += kTokens) {
        outputs.template compute<1, kTokens>(run, tile, token);
    }
    for (; token < run.tokens; ++token) outputs.template compute<1, 1>(run, tile, token);
}

// Registers: 2 x 3 integer and float sums, or 2 x 6 float sums, of 16.
constexpr int kQ8Tokens = 3;
constexpr int kFloatTokens = 6;
constexpr int kFloatTilesAtOnce = 4;  // for one token: eight independent sums hide their latency

std::int64_t tiles_of(const TileRun& run) {
    return (run.rows + kTileRows - 1) / kTileRows;
}

void lanes_q8(const TileRun& run) {
    const Q8Outputs outputs{activation_layout(run.cols)};
    for (std::int64_t tile = 0; tile < tiles_of(run); ++tile) {
        tokens_of_tile<kQ8Tokens>(run, tile, outputs);
    }
}

template <class Outputs>
void float_lanes(const TileRun& run, const Outputs& outputs) {
    const std::int64_t tiles = tiles_of(run);
    std::int64_t tile = 0;
    if (run.tokens == 1) {
        for (; tile + kFloatTilesAtOnce <= tiles; tile += kFloatTilesAtOnce) {
            outputs.template compute<kFloatTilesAtOnce, 1>(run, tile, 0);
        }
    }
    for (; tile < tiles; ++tile) tokens_of_tile<kFloatTokens>(run, tile, outputs);
}

void lanes_f32(const TileRun& run) {
    float_lanes(run, FloatOutputs<load_f32, 4>{});
}
void lanes_f16(const TileRun& run) {
    float_lanes(run, FloatOutputs<load_f16, 2>{});
}
void lanes_bf16(const TileRun& run) {
    float_lanes(run, FloatOutputs<load_bf16, 2>{});
}

// A block is taken apart in passing when all tokens fit the registers, or else once for all of
// them.
bool one_pass(std::int64_t tokens) {
    return tokens == 1 || tokens == kQ8Tokens;
}

template <bool kHalves, bool kMinimums>
void code_tiles(const TileRun& run, CodeSource source) {
    const CodeOutputs<kHalves, kMinimums> outputs{source, activation_layout(run.cols)};
    for (std::int64_t tile = 0; tile < tiles_of(run); ++tile) {
        source.tile = run.tiles + tile * static_cast<std::int64_t>(run.tile_bytes);
        if (!one_pass(run.tokens)) {
            for (std::int64_t b = 0; b < run.cols / kQ8Block; ++b)
                source.unpack_to(b, run.decoded[b]);
            source.decoded = run.decoded;
        }
        tokens_of_tile<kQ8Tokens>(run, tile, outputs);
    }
}

void lanes_codes(const TileRun& run) {
    const CodeSource source{unpack_of_avx2(run.type), code_layout(run.type)};
    if (source.codes.half_scales) {
        code_tiles<true, false>(run, source);
    } else if (source.codes.minimums) {
        code_tiles<false, true>(run, source);
    } else {
        code_tiles<false, false>(run, source);
    }
}

inline float largest_of(__m256 values) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
    return _mm_cvtss_f32(four);
}

inline std::int32_t sum_of(__m256i values) {
    __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
}

// The rounding of quantise_rows.hpp, one block.
void quantise_block(const float* x, std::byte* row, const ActivationLayout& layout,
                    std::int64_t block) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    const __m256 infinity = _mm256_set1_ps(__builtin_inff());
    __m256 values[4];
    __m256 sizes = _mm256_setzero_ps();
    int finite_lanes = 0xFF;
    for (int i = 0; i < 4; ++i) {
        values[i] = _mm256_loadu_ps(x + i * kLanes);
        const __m256 size = _mm256_andnot_ps(sign, values[i]);
        finite_lanes &= _mm256_movemask_ps(_mm256_cmp_ps(size, infinity, _CMP_LT_OQ));
        sizes = _mm256_max_ps(sizes, size);
    }
    const bool finite = finite_lanes == 0xFF;
    const float largest = largest_of(sizes);
    float inverse = finite && largest > 0.0F ? kCodeMax / largest : 0.0F;
    if (!(inverse < __builtin_inff())) inverse = 0.0F;
    __m256i codes[4];
    for (int i = 0; i < 4; ++i) {
        codes[i] = inverse > 0.0F
                       ? _mm256_cvtps_epi32(_mm256_mul_ps(values[i], _mm256_set1_ps(inverse)))
                       : _mm256_setzero_si256();
    }
    // Packing works within 128-bit halves; the permutation puts groups of four codes in order
    // again.
    const __m256i words = _mm256_packs_epi32(codes[0], codes[1]);
    const __m256i more_words = _mm256_packs_epi32(codes[2], codes[3]);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words, more_words),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + block * kQ8Block), bytes);
    finish_block(row, layout, block, finite ? largest / kCodeMax : __builtin_nanf(""),
                 sum_of(_mm256_add_epi32(codes[0], codes[1])),
                 sum_of(_mm256_add_epi32(codes[2], codes[3])));
}

void quantise_row(const float* x, std::int64_t cols, std::byte* row) {
    const ActivationLayout layout = activation_layout(cols);
    for (std::int64_t block = 0; block < cols / kQ8Block; ++block) {
        quantise_block(x + block * kQ8Block, row, layout, block);
    }
}

}  // namespace

const Kernels& kernels_avx2() {
    static const Kernels set = {lanes_f32,   lanes_f16,      lanes_bf16,  lanes_q8,
                                lanes_codes, unpack_of_avx2, quantise_row};
    return set;
}

}  // namespace strata

#else  // another processor family: never chosen, see isa.cpp

namespace strata {
const Kernels& kernels_avx2() {
    return kernels_scalar();
}
}  // namespace strata

#endif
